// See linear_kernels.h. Legend: a row-major matrix has M rows and N columns.
//
// Column sums take two kernels, since one block per strip of columns would read a tall matrix too slowly, and blocks
// may not add to the same place. First each block sums a slice of rows for a strip of columns, then one thread per
// column adds the slices in order.
#include "worker/device/cuda/linear_kernels.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/map.cuh"
#include "worker/device/cuda/vector.cuh"
#include "worker/device/cuda/workspace.h"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
// Blocks in a column sum's first kernel: about eight per multiprocessor of an H200.
constexpr int64_t kSliceBlocks = 1024;
constexpr int64_t kLeastSliceRows = 64;

// One block per row.
template <typename T>
__global__ void __launch_bounds__(kThreads) AddBiasKernel(int64_t n, const T* bias, T* y) {
  T* const row = y + static_cast<int64_t>(blockIdx.x) * n;
  for (int64_t column = threadIdx.x; column < n; column += kThreads) {
    row[column] = Narrow<T>(Widen(row[column]) + Widen(bias[column]));
  }
}

// y * gelu'(before).
template <typename T>
struct GeluSlopeSource {
  TensorSource<T> before, y;

  template <int kLanes>
  void Align(int64_t first) {
    before.template Align<kLanes>(first);
    y.template Align<kLanes>(first);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    float at[kLanes];
    before.Load(i, at);
    y.Load(i, lanes);
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] *= element::GeluSlope<element::FloatMath>(at[lane]);
  }
};

// partials(slice, columns) = sums over the slice's rows of x(M, stride). A lane sums kWidth neighbouring columns; warp
// w takes rows w, w + kWarps, ... of the slice, and the warps' sums are added in order.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    SliceSumsKernel(int64_t m, int64_t stride, int64_t columns, int64_t slice_rows, const T* x, float* partials) {
  constexpr int kStrip = kWarp * kWidth;
  __shared__ float warp_sums[kWarps][kStrip];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t strip = static_cast<int64_t>(blockIdx.x) * kStrip, column = strip + lane * kWidth;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * slice_rows;
  const int64_t end = first + slice_rows < m ? first + slice_rows : m;
  float sums[kWidth] = {};
  if (column < columns) {  // then all kWidth columns exist, since kWidth divides `columns`
    for (int64_t row = first + warp; row < end; row += kWarps) {
      float lanes[kWidth];
      LoadLanes(x + row * stride + column, /*vector=*/true, kWidth, lanes);
      for (int j = 0; j < kWidth; ++j) sums[j] += lanes[j];
    }
  }
  for (int j = 0; j < kWidth; ++j) warp_sums[warp][lane * kWidth + j] = sums[j];
  SyncThreads();
  for (int at = static_cast<int>(threadIdx.x); at < kStrip; at += kThreads) {
    if (strip + at >= columns) continue;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += warp_sums[w][at];
    partials[static_cast<int64_t>(blockIdx.y) * columns + strip + at] = sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    AddSlicesKernel(int64_t n, int64_t slices, const float* partials, float* sums) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= n) return;
  float sum = 0;
  for (int64_t slice = 0; slice < slices; ++slice) sum += partials[slice * n + column];
  sums[column] += sum;
}

dim3 Blocks(int64_t count) { return dim3(static_cast<unsigned>(CeilDivide(count, kThreads))); }

template <typename T, int kWidth>
void LaunchColumnSums(Stream& stream, const char* op, int64_t m, int64_t n, int64_t columns, const T* x,
                      float* partials, float* sums) {
  constexpr int64_t kFloats = kPartialBytes / static_cast<int64_t>(sizeof(float));
  ZF_CHECK(n <= kFloats);
  const int64_t strips = CeilDivide(n, kWarp * kWidth);
  const int64_t wanted = std::min({CeilDivide(kSliceBlocks, strips), CeilDivide(m, kLeastSliceRows), kFloats / n});
  const int64_t slice_rows = CeilDivide(m, wanted), slices = CeilDivide(m, slice_rows);
  const dim3 blocks(static_cast<unsigned>(CeilDivide(columns, kWarp * kWidth)), static_cast<unsigned>(slices));
  Launch(stream, op, SliceSumsKernel<T, kWidth>, blocks, dim3(kThreads), 0, m, n, columns, slice_rows, x, partials);
  Launch(stream, op, AddSlicesKernel, Blocks(columns), dim3(kThreads), 0, columns, slices, partials, sums);
}

}  // namespace

void AddBias(Stream& stream, const char* op, int64_t m, int64_t n, Tensor bias, Tensor y) {
  WithType(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(stream, op, AddBiasKernel<T>, dim3(static_cast<unsigned>(m)), dim3(kThreads), 0, n,
           static_cast<const T*>(bias.data), static_cast<T*>(y.data));
  });
}

void MultiplyByGeluSlope(Stream& stream, const char* op, int64_t count, Tensor before, Tensor y) {
  WithType(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* const to = static_cast<T*>(y.data);
    LaunchMap<kMapLanes<T>>(stream, op, 0, count, GeluSlopeSource<T>{{static_cast<const T*>(before.data)}, {to}}, to);
  });
}

void AddColumnSums(Stream& stream, const char* op, int64_t m, int64_t n, const RowBand& columns, Tensor x,
                   float* partials, float* sums) {
  WithType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
    const T *const data = static_cast<const T*>(x.data), *const first = data + columns.first;
    if (VectorAligned<kWidth>(data) && n % kWidth == 0) {
      ZF_CHECK(columns.first % kWidth == 0 && columns.count % kWidth == 0);
      LaunchColumnSums<T, kWidth>(stream, op, m, n, columns.count, first, partials, sums);
    } else {
      LaunchColumnSums<T, 1>(stream, op, m, n, columns.count, first, partials, sums);
    }
  });
}

}  // namespace zerofleet::device::cuda
