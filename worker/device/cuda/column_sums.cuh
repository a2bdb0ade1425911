// Sums down the columns of matrices, in an order that follows from the matrix's size alone.
//
// A block takes kWarp groups of columns and a chunk of the rows; each of its warps adds every kColumnWarps-th row. The
// warps' sums are added in order and written to partials (chunk, sum, C). In ChunkSumKernel each warp adds every
// kChunkWarps-th chunk, and the warps' sums are added in order.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_COLUMN_SUMS_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_COLUMN_SUMS_CUH_

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/rows.cuh"
#include "worker/device/cuda/workspace.h"

namespace zerofleet::device::cuda {

inline constexpr int kColumnWarps = 8;
// About eight blocks per multiprocessor of an H200, and few enough chunks for the second kernel.
inline constexpr int64_t kColumnBlocks = 1024, kMostChunks = 256, kFewestChunkRows = 64;

template <typename T>
inline constexpr int kTileColumns = kWarp* kRowLanes<T>;
template <typename T, int kSums>
using TileSums = float[kSums][kTileColumns<T>];

// The one or two vectors of C elements to which the sums are added.
struct SumVectors {
  float *first, *second = nullptr;
};

template <typename T, int kSums, typename Source>
__global__ void __launch_bounds__(kWarp* kColumnWarps)
    ColumnKernel(int64_t m, int64_t c, int64_t chunk_rows, Source source, float* partials) {
  constexpr int kLanes = kRowLanes<T>;
  TileSums<T, kSums>* const of_warps = DynamicShared<TileSums<T, kSums>>();  // kColumnWarps of them
  const int lane_column = static_cast<int>(threadIdx.x) * kLanes, warp = static_cast<int>(threadIdx.y);
  const int64_t tile = int64_t{blockIdx.x} * kTileColumns<T>, left = c - tile - lane_column;
  float sums[kSums][kLanes] = {};
  if (left > 0) {
    const int64_t begin = blockIdx.y * chunk_rows, end = begin + chunk_rows < m ? begin + chunk_rows : m;
#pragma unroll 2
    for (int64_t row = begin + warp; row < end; row += kColumnWarps) source.Add(row, tile + lane_column, left, sums);
  }
  for (int which = 0; which < kSums; ++which) {
    for (int lane = 0; lane < kLanes; ++lane) of_warps[warp][which][lane_column + lane] = sums[which][lane];
  }
  SyncThreads();
  constexpr int kTileElements = kSums * kTileColumns<T>;
  for (int sum = warp * kWarp + static_cast<int>(threadIdx.x); sum < kTileElements; sum += kWarp * kColumnWarps) {
    const int which = sum / kTileColumns<T>, column = sum % kTileColumns<T>;
    float total = of_warps[0][which][column];
    for (int w = 1; w < kColumnWarps; ++w) total += of_warps[w][which][column];
    if (tile + column < c) partials[(int64_t{blockIdx.y} * kSums + which) * c + tile + column] = total;
  }
}

inline constexpr int kChunkWarps = 16;

template <int kSums>
__global__ void __launch_bounds__(kWarp* kChunkWarps)
    ChunkSumKernel(int64_t c, int64_t chunks, const float* partials, SumVectors to) {
  __shared__ float of_warps[kChunkWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane, which = blockIdx.y;
  float sum = 0;
  if (column < c) {
#pragma unroll 4
    for (int64_t chunk = warp; chunk < chunks; chunk += kChunkWarps)
      sum += partials[(chunk * kSums + which) * c + column];
  }
  of_warps[warp][lane] = sum;
  SyncThreads();
  if (warp != 0 || column >= c) return;
  for (int w = 1; w < kChunkWarps; ++w) sum += of_warps[w][lane];
  float* const sums = which == 0 ? to.first : to.second;
  sums[column] += sum;
}

// Adds partial sums of `chunks` chunks, (chunk, sum, C), to the vectors.
template <int kSums>
void AddChunkSums(Stream& stream, const char* op, int64_t c, int64_t chunks, const float* partials,
                  const SumVectors& to) {
  Launch(stream, op, ChunkSumKernel<kSums>, dim3(static_cast<unsigned>(CeilDivide(c, kWarp)), kSums),
         dim3(kWarp, kChunkWarps), 0, c, chunks, partials, to);
}

// Adds to element `column` of to.first (s = 0) and to.second (s = 1) the sum over M rows of what source.Add(row,
// column, left, sums) adds to sums[s]. Add is called once per row and group of kRowLanes<T> columns; `left` columns
// remain from `column` on. `partials` has kPartialBytes. Columns that are a part of `whole_c` have the same bits as
// there.
template <typename T, int kSums, typename Source>
void AddColumnSums(Stream& stream, const char* op, int64_t m, int64_t c, const Source& source, float* partials,
                   const SumVectors& to, int64_t whole_c) {
  static_assert(kSums <= 2);
  const int64_t most_chunks = std::min({kMostChunks, CeilDivide(kColumnBlocks, CeilDivide(whole_c, kTileColumns<T>)),
                                        kPartialBytes / (kSums * whole_c * static_cast<int64_t>(sizeof(float)))});
  ZF_CHECK(most_chunks >= 1);
  if (m == 0) return;
  const int64_t chunk_rows = std::max(kFewestChunkRows, CeilDivide(m, most_chunks));
  const int64_t chunks = CeilDivide(m, chunk_rows);
  Launch(stream, op, ColumnKernel<T, kSums, Source>,
         dim3(static_cast<unsigned>(CeilDivide(c, kTileColumns<T>)), static_cast<unsigned>(chunks)),
         dim3(kWarp, kColumnWarps), kColumnWarps * sizeof(TileSums<T, kSums>), m, c, chunk_rows, source, partials);
  AddChunkSums<kSums>(stream, op, c, chunks, partials, to);
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_COLUMN_SUMS_CUH_
