// See linear_kernels.h. Legend: a row-major matrix has M rows and N columns.
#include "worker/device/cuda/linear_kernels.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/column_sums.cuh"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/map.cuh"
#include "worker/device/cuda/rows.cuh"
#include "worker/device/cuda/vector.cuh"
#include "worker/device/cuda/workspace.h"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int kThreads = 256;

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

// The elements of x themselves, for AddColumnSums; rows are `stride` apart.
template <typename T, bool kWhole>
struct PlainColumns {
  int64_t stride;
  Rows<T, kWhole> x;

  __device__ void Add(int64_t row, int64_t column, int64_t left, float (&sums)[1][kRowLanes<T>]) const {
    float lanes[kRowLanes<T>];
    x.Load(row * stride + column, left, lanes);
    for (int lane = 0; lane < kRowLanes<T>; ++lane) sums[0][lane] += lanes[lane];
  }
};

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
  const Tensor band = x.Offset(columns.first);
  WithType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({band}, n, [&](auto whole) {
      ZF_CHECK(!whole.value || columns.count % kRowLanes<T> == 0);
      const PlainColumns<T, whole.value> plain{n, Rows<T, whole.value>(band, n)};
      AddColumnSums<T, 1>(stream, op, m, columns.count, plain, partials, {sums}, n);
    });
  });
}

}  // namespace zerofleet::device::cuda
