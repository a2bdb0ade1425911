// The backward of a norm over whole rows in one pass (norm.cu, rms_norm.cu): dx, and what the rows add to the
// parameters' gradients.
//
// A block takes a chunk of the rows, one after another, and each of its threads the same group of columns in all of
// them. So dy, x and dx are read once, and a thread keeps its columns' sums until the chunk ends. They go to partials
// (chunk, sum, C), which ChunkSumKernel adds up in order. The next row is fetched before the threads add up this one:
// three blocks of 7 warps with a row of C = 1600 in bf16 each keep 28 KB in flight in every multiprocessor, where
// 3.35 TB/s at 700 ns of latency require 18 KB. A row must fit in one group per thread (TakesOnePass).
//
// Estimate in bf16: dy, x and dx are read and dx is written, 8 bytes per element, and 8 bytes of partial sums per
// column and chunk are written and read: M = 16384, C = 1600 are 0.21 GB and 10 MB, 66 us on an H100.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_NORM_BACKWARD_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_NORM_BACKWARD_CUH_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/units.h"
#include "worker/device/cuda/column_sums.cuh"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/reduce.cuh"
#include "worker/device/cuda/rows.cuh"
#include "worker/device/cuda/workspace.h"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {

// One wave of blocks on an H100: as many warps as have registers there, in each of its multiprocessors. The number of
// chunks must not depend on the GPU.
inline constexpr int64_t kNormProcessors = 132, kNormWarps = 24, kFewestNormRows = 8;

// The largest block, and how many such blocks must fit in a multiprocessor. With the sums for a mean a thread would
// take 103 registers, of which there are enough for 16 warps; so bounded it takes 80, enough for kNormWarps.
template <bool kMean>
inline constexpr int kMostNormThreads = kMean ? 384 : kMostRowThreads;
template <bool kMean>
inline constexpr int kNormBlocks = kMean ? 2 : 1;

template <typename T, bool kMean>
bool TakesOnePass(int64_t c) {
  return c <= kMostNormThreads<kMean> * kRowLanes<T>;
}

// The rows that a block takes.
template <typename T>
int64_t NormChunkRows(int64_t m, int64_t c) {
  const int64_t warps = RowThreads<T>(c).x / kWarp;
  return std::max(kFewestNormRows, CeilDivide(m, kNormProcessors * std::max<int64_t>(1, kNormWarps / warps)));
}
static_assert(kNormProcessors * kNormWarps * kWarp * kRowLanes<BF16> * 2 * sizeof(float) <= kPartialBytes);

// A row's group of columns, as it is stored, and the row's statistics.
template <typename T, bool kWhole, bool kMean>
struct NormGroup {
  PackedRow<T, kWhole> dy, x, dx;
  float mean = 0, rstd = 0;
};

// With normal = (x - mean) rstd and g = dy gamma: dx += (g - mean(g) - normal mean(g normal)) rstd, where a norm
// without a mean (kMean) has no mean(g) either. The sums are those of dy normal and, with kMean, of dy.
template <typename T, bool kWhole, bool kMean>
__global__ void __launch_bounds__(kMostNormThreads<kMean>, kNormBlocks<kMean>)
    NormBackwardKernel(int64_t m, int64_t c, int64_t chunk_rows, Rows<T, kWhole> dy, Rows<T, kWhole> x,
                       Rows<T, kWhole> gamma, const float* means, const float* rstds, Rows<T, kWhole> dx,
                       float* partials) {
  constexpr int kLanes = kRowLanes<T>, kSums = kMean ? 2 : 1;
  const int64_t column = int64_t{threadIdx.x} * kLanes, left = c - column;
  const int64_t begin = blockIdx.x * chunk_rows, end = begin + chunk_rows < m ? begin + chunk_rows : m;
  float scale[kLanes] = {}, sums[kSums][kLanes] = {};
  if (left > 0) gamma.Load(column, left, scale);
  NormGroup<T, kWhole, kMean> next;
  const auto fetch = [&](int64_t row) {
    next.rstd = rstds[row];
    if constexpr (kMean) next.mean = means[row];
    if (left <= 0) return;
    next.dy.Load(dy, row * c + column, left);
    next.x.Load(x, row * c + column, left);
    next.dx.Load(dx, row * c + column, left);
  };
  fetch(begin);
  for (int64_t row = begin; row < end; ++row) {
    const NormGroup<T, kWhole, kMean> now = next;
    if (row + 1 < end) fetch(row + 1);
    float g[kLanes], normal[kLanes];
    now.dy.Widen(g);
    now.x.Widen(normal);
    float of_row[kSums] = {};  // sums of g normal and of g, both 0 past the row's end
    for (int lane = 0; lane < kLanes; ++lane) {
      normal[lane] = (normal[lane] - now.mean) * now.rstd;
      sums[0][lane] = std::fmaf(g[lane], normal[lane], sums[0][lane]);
      if constexpr (kMean) sums[1][lane] += g[lane];
      g[lane] *= scale[lane];
      of_row[0] = std::fmaf(g[lane], normal[lane], of_row[0]);
      if constexpr (kMean) of_row[1] += g[lane];
    }
    BlockSum(of_row);
    if (left <= 0) continue;
    const float mean_gn = of_row[0] / static_cast<float>(c);
    float mean_g = 0;
    if constexpr (kMean) mean_g = of_row[1] / static_cast<float>(c);
    float gradient[kLanes];
    now.dx.Widen(gradient);
    for (int lane = 0; lane < kLanes; ++lane) {
      gradient[lane] = element::LayerNormGradient<element::FloatMath>(gradient[lane], g[lane], normal[lane], now.rstd,
                                                                      mean_g, mean_gn);
    }
    dx.Store(gradient, row * c + column, left);
  }
  for (int which = 0; which < kSums && left > 0; ++which) {
    StoreLanes(sums[which], kWhole, left, partials + (int64_t{blockIdx.x} * kSums + which) * c + column);
  }
}

// dx as above, for M > 0 rows; adds the sums to the vectors `to`. `means` is null where the norm has none.
template <typename T, bool kWhole, bool kMean>
void NormBackward(Stream& stream, const char* op, int64_t m, int64_t c, const Tensor& dy, const Tensor& x,
                  const Tensor& gamma, const float* means, const float* rstds, const Tensor& dx, float* partials,
                  const SumVectors& to) {
  using R = Rows<T, kWhole>;
  const int64_t chunk_rows = NormChunkRows<T>(m, c), chunks = CeilDivide(m, chunk_rows);
  Launch(stream, op, NormBackwardKernel<T, kWhole, kMean>, dim3(static_cast<unsigned>(chunks)), RowThreads<T>(c), 0, m,
         c, chunk_rows, R(dy, c), R(x, c), R(gamma, c), means, rstds, R(dx, c), partials);
  AddChunkSums<kMean ? 2 : 1>(stream, op, c, chunks, partials, to);
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_NORM_BACKWARD_CUH_
