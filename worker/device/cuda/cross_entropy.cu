// Output head with softmax cross-entropy (ops.h), a chunk of tokens at a time. M tokens, C hidden, V vocabulary.
//
// A block processes one row of logits. It reads the row once for the maximum and the sum of exponentials, rescaling the
// sum when the maximum grows, and once more to turn each logit into its gradient in place. That is two reads and one
// write; the second read hits the L2 cache, where all running blocks' rows fit (two of 100 KB per multiprocessor). For
// 16 x 1024 tokens of gpt2 in bf16 that is 3.3 GB of memory traffic, a millisecond on an H200, against 11 ms of matrix
// products.
#include "worker/device/cuda/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/map.cuh"
#include "worker/device/cuda/reduce.cuh"
#include "worker/device/cuda/softmax.cuh"
#include "worker/device/cuda/vector.cuh"

namespace zerofleet::device::cuda {
namespace {

constexpr char kOp[] = "CrossEntropy";
constexpr int64_t kRowsUnit = 128, kAlignBytes = 256;
constexpr int kSumThreads = 1024;
// What cuBLASLt wants an extent to be a multiple of.
constexpr int64_t kExtentUnit = 8;

// Padding behind the vocabulary is left alone. losses[row] = -log softmax(logits)[target], 0 where the target is -1;
// with a gradient, logits = (softmax - onehot(target)) * *gradient_scale, and kept[row], unless `kept` is null, is what
// bands.cu needs to compute that again. With kTerms, loss and gradient include `terms` (LossTerms).
template <typename T, bool kGradient, bool kTerms>
__global__ void __launch_bounds__(kRowThreads)
    CrossEntropyKernel(int vocab, int64_t stride, const int32_t* targets, const float* gradient_scale, LossTerms terms,
                       T* logits, double* losses, LogitsGradient* kept) {
  const int64_t at = blockIdx.x;
  T* const row = logits + at * stride;
  const int target = targets[at];
  // Read before the barrier, after which the logit may be overwritten.
  const float target_logit = threadIdx.x == 0 && target >= 0 ? Widen(row[target]) : 0.0f;
  double logits_sum = 0;
  if constexpr (kTerms) {
    ForEachGroup(vocab, row, [&](int first, float(&lanes)[kLogitLanes<T>]) {
      for (int lane = 0; lane < kLogitLanes<T>; ++lane) logits_sum += first + lane < vocab ? lanes[lane] : 0.0f;
    });
    logits_sum = BlockSum(logits_sum);
  }
  const MaximumAndSum all = OfBlock(OfThread(vocab, row));
  const double denominator = kTerms ? std::log(static_cast<double>(all.sum)) + all.maximum : 0;
  if (threadIdx.x == 0) {
    double loss = std::log(static_cast<double>(all.sum)) + (static_cast<double>(all.maximum) - target_logit);
    if constexpr (kTerms) {
      loss += terms.label_smoothing * (target_logit - logits_sum / vocab) + terms.z_loss * denominator * denominator;
    }
    losses[at] = target < 0 ? 0.0 : loss;
  }
  if constexpr (kGradient) {
    const float inverse = 1.0f / all.sum, scale = target < 0 ? 0.0f : *gradient_scale;
    if (threadIdx.x == 0 && kept != nullptr) kept[at] = {all.maximum, inverse};
    const float share = kTerms ? static_cast<float>(1 + 2 * terms.z_loss * denominator) * inverse : inverse;
    const float at_target = kTerms ? 1.0f - terms.label_smoothing : 1.0f;
    const float each = kTerms ? terms.label_smoothing / static_cast<float>(vocab) : 0.0f;
    ForEachGroup(vocab, row, [&](int first, float(&lanes)[kLogitLanes<T>]) {
      for (int lane = 0; lane < kLogitLanes<T>; ++lane) {
        float probability = Exp(lanes[lane] - all.maximum) * share;
        if constexpr (kTerms) probability -= each;
        lanes[lane] = (first + lane == target ? probability - at_target : probability) * scale;
      }
      StoreLanes(lanes, /*vector=*/true, vocab - first, row + first);
    });
  }
}

// *loss_sum = the sum of m losses: each thread adds every kSumThreads-th in order, then the threads' sums are added.
__global__ void __launch_bounds__(kSumThreads) SumLossesKernel(int64_t m, const double* losses, double* loss_sum) {
  double sum = 0;
  for (int64_t row = threadIdx.x; row < m; row += kSumThreads) sum += losses[row];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) *loss_sum = sum;
}

// The first `count` elements of `data`, and zeros behind them.
template <typename T>
struct PaddedSource {
  const T* data;
  int64_t count;
  bool vector = false;

  template <int kLanes>
  void Align(int64_t first) {
    vector = VectorAligned<kLanes>(data + first);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    LoadLanes(data + i, vector, count - i, lanes);
  }
};

}  // namespace

// Chunks are cut evenly, so that the last is not a sliver that leaves most of the GPU idle.
CrossEntropyPlan::CrossEntropyPlan(int64_t m, int64_t c, int64_t vocab, DType dtype, int64_t logits_bytes) {
  stride = LogitsStride(vocab);
  const int64_t row_bytes = stride * DTypeBytes(dtype);
  const int64_t fit = std::clamp<int64_t>(logits_bytes / row_bytes, 1, m);
  rows = std::min(fit, RoundUp(CeilDivide(m, CeilDivide(m, fit)), kRowsUnit));
  logits_at = RoundUp(m * static_cast<int64_t>(sizeof(double)), kAlignBytes);
  weight_at = RoundUp(logits_at + rows * row_bytes, kAlignBytes);
  bytes = stride == vocab ? logits_at + rows * row_bytes : weight_at + stride * c * DTypeBytes(dtype);
}

Tensor PaddedRows(Stream& stream, Tensor w, int64_t vocab, int64_t c, int64_t first, int64_t rows, void* room) {
  const Tensor from = w.Offset(first * c);
  if (first + rows <= vocab) return from;
  WithType(w.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchMap<kMapLanes<T>>(stream, kOp, 0, rows * c,
                            PaddedSource<T>{static_cast<const T*>(from.data), (vocab - first) * c},
                            static_cast<T*>(room));
  });
  return {room, w.dtype};
}

void AddHeadGradient(Stream& stream, Matmul& matmul, const char* op, int64_t vocab, const RowBand& band, int64_t m,
                     int64_t c, const Matrix& gradient, Tensor x, float* dw) {
  const int64_t even = vocab / kExtentUnit * kExtentUnit;
  const auto add = [&](int64_t first, int64_t end, int64_t whole) {
    if (first >= end) return;
    const Matrix to = {{dw + (first - band.first) * c, DType::kF32}, c};
    matmul.Run(stream, op,
               {.m = end - first,
                .n = c,
                .k = m,
                .a = {gradient.data.Offset(first - band.first), gradient.stride, /*transposed=*/true},
                .b = {x, c},
                .c = to,
                .d = to,
                .whole_m = whole});
  };
  const int64_t end = band.first + band.count;
  add(band.first, std::min(end, even), even);
  add(std::max(band.first, even), end, vocab - even);
}

void RunCrossEntropy(Stream& stream, Matmul& matmul, const CrossEntropyPlan& plan, const CrossEntropyArguments& p) {
  ZF_CHECK(reinterpret_cast<uintptr_t>(p.scratch) % 16 == 0);
  ZF_CHECK(p.vocab <= 1 << 30);  // columns are counted in 32 bits
  double* const losses = static_cast<double*>(p.scratch);
  std::byte* const scratch = static_cast<std::byte*>(p.scratch);
  const Tensor logits = {scratch + plan.logits_at, p.x.dtype};
  const Tensor w = PaddedRows(stream, p.w, p.vocab, p.c, 0, plan.stride, scratch + plan.weight_at);
  for (int64_t first = 0; first < p.m; first += plan.rows) {
    const int64_t rows = std::min(plan.rows, p.m - first);
    const Tensor x = p.x.Offset(first * p.c);
    matmul.Run(stream, kOp,
               {.m = rows,
                .n = plan.stride,
                .k = p.c,
                .a = {x, p.c},
                .b = {w, p.c, /*transposed=*/true},
                .d = {logits, plan.stride}});
    WithType(p.x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const auto kernel = p.terms.none()
                              ? (p.dx ? CrossEntropyKernel<T, true, false> : CrossEntropyKernel<T, false, false>)
                              : (p.dx ? CrossEntropyKernel<T, true, true> : CrossEntropyKernel<T, false, true>);
      Launch(stream, kOp, kernel, dim3(static_cast<unsigned>(rows)), dim3(kRowThreads), 0, static_cast<int>(p.vocab),
             plan.stride, p.targets + first, p.gradient_scale, p.terms, static_cast<T*>(logits.data), losses + first,
             p.kept == nullptr ? nullptr : p.kept + first);
    });
    if (!p.dx) continue;
    matmul.Run(stream, kOp,
               {.m = rows,
                .n = p.c,
                .k = plan.stride,
                .a = {logits, plan.stride},
                .b = {w, p.c},
                .d = {p.dx.Offset(first * p.c), p.c}});
    if (p.dw == nullptr) continue;
    AddHeadGradient(stream, matmul, kOp, p.vocab, {0, p.vocab}, rows, p.c, {logits, plan.stride}, x, p.dw);
  }
  Launch(stream, kOp, SumLossesKernel, dim3(1), dim3(kSumThreads), 0, p.m, losses, p.loss_sum);
}

void CudaOps::CrossEntropy(Stream& stream, const CrossEntropyArguments& p) {
  RunCrossEntropy(stream, *matmul_, CrossEntropyPlan(p.m, p.c, p.vocab, p.x.dtype), p);
}

int64_t CudaOps::CrossEntropyScratchBytes(int64_t m, int64_t c, int64_t vocab, DType dtype) const {
  return CrossEntropyPlan(m, c, vocab, dtype).bytes;
}

}  // namespace zerofleet::device::cuda
