// The logits of a part of the vocabulary and what becomes of them (vocabulary_ops.h). Its embedding is in embedding.cu.
//
// Logits are fp32, as on every device. PartLogits reads a row once for the part's share of the softmax;
// PartCrossEntropy reads it once more for the gradient, which it writes in the compute type for the two products after
// it. For M tokens and V rows in bf16 the product writes 4MV bytes, and the kernels read 8MV and write 2MV: for 16 x
// 1024 tokens and half of gpt2's vocabulary 5.8 GB, 1.2 ms on an H200, against 6 ms of products.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/cross_entropy.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/matmul.h"
#include "worker/device/cuda/reduce.cuh"
#include "worker/device/cuda/softmax.cuh"

namespace zerofleet::device::cuda {
namespace {

constexpr int kLossThreads = 1024;

// Computes softmax[row] for this part, one block per row.
__global__ void __launch_bounds__(kRowThreads)
    PartSoftmaxKernel(VocabularyPart part, int64_t stride, const int32_t* targets, const float* logits, int64_t vocab,
                      float label_smoothing, SoftmaxPart* softmax) {
  const int64_t at = blockIdx.x;
  const float* const row = logits + at * stride;
  double logits_sum = 0;
  if (label_smoothing != 0) {
    ForEachGroup(static_cast<int>(part.rows), row, [&](int first, float(&lanes)[kLogitLanes<float>]) {
      for (int lane = 0; lane < kLogitLanes<float>; ++lane) logits_sum += first + lane < part.rows ? lanes[lane] : 0.0f;
    });
    logits_sum = BlockSum(logits_sum);
  }
  const MaximumAndSum all = OfBlock(OfThread(static_cast<int>(part.rows), row));
  if (threadIdx.x != 0) return;
  const int64_t target = targets[at] - part.first;
  float of_target = target >= 0 && target < part.rows ? row[target] : 0.0f;
  if (label_smoothing != 0) {
    const double mean = logits_sum / static_cast<double>(vocab);
    of_target = static_cast<float>((1 - label_smoothing) * of_target + label_smoothing * mean);
  }
  softmax[at] = {all.maximum, all.sum, of_target};
}

// One token's softmax over all parts, combined in the order of the parts.
struct PartsOfSoftmax {
  double largest, sum, target;
};

__device__ PartsOfSoftmax Combine(const SoftmaxPart* softmax, int64_t m, int parts, int64_t row) {
  PartsOfSoftmax whole = {softmax[row].largest, 0, 0};
  for (int part = 1; part < parts; ++part) {
    const double largest = softmax[part * m + row].largest;
    if (largest > whole.largest) whole.largest = largest;
  }
  for (int part = 0; part < parts; ++part) {
    const SoftmaxPart& one = softmax[part * m + row];
    whole.sum += one.sum * std::exp(one.largest - whole.largest);
    whole.target += one.target;
  }
  return whole;
}

// Adds to *loss_sum the losses of the tokens that count, out of m: each thread adds every kLossThreads-th in order,
// then the threads' sums are added.
__global__ void __launch_bounds__(kLossThreads) PartLossKernel(int64_t m, int parts, const SoftmaxPart* softmax,
                                                               const int32_t* targets, float z_loss, double* loss_sum) {
  double sum = 0;
  for (int64_t row = threadIdx.x; row < m; row += kLossThreads) {
    if (targets[row] < 0) continue;
    const PartsOfSoftmax whole = Combine(softmax, m, parts, row);
    const double denominator = std::log(whole.sum) + whole.largest;
    sum += std::log(whole.sum) + (whole.largest - whole.target);
    if (z_loss != 0) sum += z_loss * denominator * denominator;
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) *loss_sum += sum;
}

// gradient = (softmax - onehot(target)) * *gradient_scale for this part's logits, plus the gradient of `terms`; in the
// logits' place where T is float. kept[row], unless `kept` is null, is what bands.cu needs to compute that again.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    PartGradientKernel(VocabularyPart part, int64_t stride, int64_t m, int index, int parts, const SoftmaxPart* softmax,
                       const int32_t* targets, const float* gradient_scale, int64_t vocab, LossTerms terms,
                       const float* logits, T* gradient, LogitsGradient* kept) {
  __shared__ float of_row;
  const int64_t at = blockIdx.x;
  const float largest = softmax[index * m + at].largest, scale = targets[at] < 0 ? 0.0f : *gradient_scale;
  if (threadIdx.x == 0) {
    const PartsOfSoftmax whole = Combine(softmax, m, parts, at);
    of_row = scale * static_cast<float>(std::exp(largest - whole.largest) / whole.sum);
    if (terms.z_loss != 0) {
      of_row *= static_cast<float>(1 + 2 * terms.z_loss * (std::log(whole.sum) + whole.largest));
    }
    if (kept != nullptr) kept[at] = {largest, of_row};
  }
  SyncThreads();
  const float factor = of_row, at_target = scale * (1 - terms.label_smoothing);
  const float each = terms.label_smoothing == 0 ? 0.0f : scale * terms.label_smoothing / static_cast<float>(vocab);
  const int64_t target = targets[at] - part.first;
  T* const to = gradient + at * stride;
  ForEachGroup(static_cast<int>(part.rows), logits + at * stride, [&](int first, float(&lanes)[kLogitLanes<float>]) {
    for (int lane = 0; lane < kLogitLanes<float>; ++lane) {
      const float softmax_gradient = Exp(lanes[lane] - largest) * factor - each;
      lanes[lane] = first + lane == target ? softmax_gradient - at_target : softmax_gradient;
    }
    StoreLanes(lanes, /*vector=*/true, part.rows - first, to + first);
  });
}

void CheckPart(const VocabularyPart& part, const void* logits) {
  ZF_CHECK(reinterpret_cast<uintptr_t>(logits) % 16 == 0);
  ZF_CHECK(part.rows <= 1 << 30);  // columns are counted in 32 bits
}

}  // namespace

void CudaOps::PartLogits(Stream& stream, const PartLogitsArguments& p) {
  constexpr const char* kOp = "PartLogits";
  CheckPart(p.part, p.logits);
  const int64_t stride = LogitsStride(p.part.rows);
  matmul_->Run(stream, kOp,
               {.m = p.m,
                .n = p.part.rows,
                .k = p.c,
                .a = {p.x, p.c},
                .b = {p.w, p.c, /*transposed=*/true},
                .d = {{p.logits, DType::kF32}, stride}});
  Launch(stream, kOp, PartSoftmaxKernel, dim3(static_cast<unsigned>(p.m)), dim3(kRowThreads), 0, p.part, stride,
         p.targets, p.logits, p.vocab, p.label_smoothing, p.softmax);
}

void CudaOps::PartCrossEntropy(Stream& stream, const PartCrossEntropyArguments& p) {
  constexpr const char* kOp = "PartCrossEntropy";
  CheckPart(p.part, p.logits);
  Launch(stream, kOp, PartLossKernel, dim3(1), dim3(kLossThreads), 0, p.m, p.parts, p.softmax, p.targets,
         p.terms.z_loss, p.loss_sum);
  if (!p.dx) return;
  const int64_t stride = LogitsStride(p.part.rows);
  const bool narrower = p.x.dtype != DType::kF32;
  const Tensor gradient = {static_cast<std::byte*>(p.scratch) + (narrower ? PartGradientAt(p.m, p.part.rows) : 0),
                           p.x.dtype};
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(stream, kOp, PartGradientKernel<T>, dim3(static_cast<unsigned>(p.m)), dim3(kRowThreads), 0, p.part, stride,
           p.m, p.index, p.parts, p.softmax, p.targets, p.gradient_scale, p.vocab, p.terms, p.logits,
           static_cast<T*>(gradient.data), p.kept);
  });
  matmul_->Run(stream, kOp,
               {.m = p.m, .n = p.c, .k = p.part.rows, .a = {gradient, stride}, .b = {p.w, p.c}, .d = {p.dx, p.c}});
  if (p.dw == nullptr) return;
  AddHeadGradient(stream, *matmul_, kOp, p.part.rows, {0, p.part.rows}, p.m, p.c, {gradient, stride}, p.x, p.dw);
}

int64_t CudaOps::PartLogitsScratchBytes(int64_t rows, int64_t vocab, DType dtype) const {
  const int64_t narrower = dtype == DType::kF32 ? 0 : rows * LogitsStride(vocab) * DTypeBytes(dtype);
  return PartGradientAt(rows, vocab) + narrower;
}

}  // namespace zerofleet::device::cuda
