// The output embedding's gradient in bands (band_ops.h): the logits of a band of the vocabulary are computed again, by
// the algorithm that computed all logits. What is kept of each token's softmax turns them into their gradient, with the
// bits that it had. The product with the tokens uses the algorithm of the whole gradient's product.
//
// That takes two products and one pass over the band's logits per chunk of tokens. The bands of linear layers are in
// linear.cc, those of the embedding lookup in embedding.cu.
#include <algorithm>

#include "worker/device/cuda/cross_entropy.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/matmul.h"
#include "worker/device/cuda/softmax.cuh"
#include "worker/device/cuda/vector.cuh"

namespace zerofleet::device::cuda {
namespace {

constexpr const char* kBandOp = "CrossEntropyBand";
constexpr int64_t kBandRows = 128;  // so that each band begins at a multiple of the widest access, in every type

// The logits' gradient for a whole vocabulary, as CrossEntropyKernel makes it.
struct OfWhole {
  __device__ static float Gradient(float exponential, float factor, bool is_target, float scale) {
    const float probability = exponential * factor;
    return (is_target ? probability - 1.0f : probability) * scale;
  }
};
// The logits' gradient for a part of the vocabulary, as PartGradientKernel makes it.
struct OfPart {
  __device__ static float Gradient(float exponential, float factor, bool is_target, float scale) {
    const float gradient = exponential * factor;
    return is_target ? gradient - scale : gradient;
  }
};

// gradient(rows, columns) from the logits, one block per row. `first_token` is the band's first token.
template <typename Rule, typename From, typename To>
__global__ void __launch_bounds__(kRowThreads)
    BandGradientKernel(int columns, int64_t stride, int64_t first_token, const int32_t* targets,
                       const float* gradient_scale, const LogitsGradient* kept, const From* logits, To* gradient) {
  const int64_t at = blockIdx.x, target = targets[at] - first_token;
  const float scale = targets[at] < 0 ? 0.0f : *gradient_scale, largest = kept[at].largest, factor = kept[at].factor;
  To* const to = gradient + at * stride;
  ForEachGroup(columns, logits + at * stride, [&](int first, float(&lanes)[kLogitLanes<From>]) {
    for (int lane = 0; lane < kLogitLanes<From>; ++lane) {
      lanes[lane] = Rule::Gradient(Exp(lanes[lane] - largest), factor, first + lane == target, scale);
    }
    StoreLanes(lanes, /*vector=*/true, columns - first, to + first);
  });
}

// The places that the logits of all columns have, and their gradients; how many columns one product made; the place of
// a padded weight, null where there is none.
struct Logits {
  int64_t rows, stride, columns;
  Tensor logits, gradient;
  void* weight;
};

Logits LogitsOf(const CrossEntropyBandArguments& p) {
  std::byte* const scratch = static_cast<std::byte*>(p.scratch);
  const DType dtype = p.x.dtype;
  if (!p.in_parts) {
    const CrossEntropyPlan plan(p.m, p.c, p.part.rows, dtype);
    const Tensor logits = {scratch + plan.logits_at, dtype};
    return {plan.rows, plan.stride, plan.stride, logits, logits, scratch + plan.weight_at};
  }
  const int64_t behind = dtype == DType::kF32 ? 0 : PartGradientAt(std::min(p.rows, p.m), p.part.rows);
  return {p.rows, LogitsStride(p.part.rows), p.part.rows, {scratch, DType::kF32}, {scratch + behind, dtype}, nullptr};
}

template <typename Rule, typename From, typename To>
void LaunchGradient(Stream& stream, const CrossEntropyBandArguments& p, int64_t first, int64_t rows, int64_t stride,
                    Tensor logits, Tensor gradient) {
  Launch(stream, kBandOp, BandGradientKernel<Rule, From, To>, dim3(static_cast<unsigned>(rows)), dim3(kRowThreads), 0,
         static_cast<int>(p.band.count), stride, p.part.first + p.band.first, p.targets + first, p.gradient_scale,
         p.kept + first, static_cast<const From*>(logits.data), static_cast<To*>(gradient.data));
}

}  // namespace

int64_t CudaOps::BandRows(int64_t rows, DType) const { return std::min(rows, kBandRows); }

void CudaOps::CrossEntropyBand(Stream& stream, const CrossEntropyBandArguments& p) {
  const Logits all = LogitsOf(p);
  const Tensor logits = all.logits.Offset(p.band.first), gradient = all.gradient.Offset(p.band.first);
  // The last band reaches as far as the logits.
  const int64_t end = p.band.first + p.band.count,
                columns = end < p.part.rows ? p.band.count : all.columns - p.band.first;
  const Tensor w = PaddedRows(stream, p.w, p.part.rows, p.c, p.band.first, columns, all.weight);
  for (int64_t first = 0; first < p.m; first += all.rows) {
    const int64_t rows = std::min(all.rows, p.m - first);
    const Tensor x = p.x.Offset(first * p.c);
    matmul_->Run(stream, kBandOp,
                 {.m = rows,
                  .n = columns,
                  .k = p.c,
                  .a = {x, p.c},
                  .b = {w, p.c, /*transposed=*/true},
                  .d = {logits, all.stride},
                  .whole_n = all.columns});
    WithType(p.x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const auto launch = p.in_parts ? LaunchGradient<OfPart, float, T> : LaunchGradient<OfWhole, T, T>;
      launch(stream, p, first, rows, all.stride, logits, gradient);
    });
    AddHeadGradient(stream, *matmul_, kBandOp, p.part.rows, p.band, rows, p.c, {gradient, all.stride}, x, p.dw);
  }
}

}  // namespace zerofleet::device::cuda
