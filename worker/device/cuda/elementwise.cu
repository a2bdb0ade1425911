// Element-wise ops on activations (ops.h).
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/map.cuh"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {
namespace {

template <typename T>
struct GeluSource {
  TensorSource<T> x;

  template <int kLanes>
  void Align(int64_t first) {
    x.template Align<kLanes>(first);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    x.Load(i, lanes);
    for (float& lane : lanes) lane = element::Gelu<element::FloatMath>(lane);
  }
};

// One thread for each of m * n elements; neighbouring threads access neighbouring elements.
template <typename T>
__global__ void __launch_bounds__(kMapThreads) ColumnsKernel(int64_t m, int64_t n, const T* from, int64_t from_columns,
                                                             float scale, bool add, T* to, int64_t to_columns) {
  const int64_t i = int64_t{blockIdx.x} * kMapThreads + threadIdx.x;
  if (i >= m * n) return;
  const int64_t row = i / n, column = i % n;
  T& target = to[row * to_columns + column];
  const float scaled = Widen(from[row * from_columns + column]) * scale;
  target = Narrow<T>(add ? Widen(target) + scaled : scaled);
}

}  // namespace

void CudaOps::Columns(Stream& stream, const ColumnsArguments& p) {
  const int64_t blocks = CeilDivide(p.m * p.n, kMapThreads);
  if (blocks == 0) return;
  WithType(p.from.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(stream, "Columns", ColumnsKernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kMapThreads), 0, p.m, p.n,
           static_cast<const T*>(p.from.data) + p.from_first, p.from_columns, p.scale, p.add,
           static_cast<T*>(p.to.data) + p.to_first, p.to_columns);
  });
}

void CudaOps::GeluForward(Stream& stream, int64_t count, Tensor x, Tensor y) {
  WithType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchMap<kMapLanes<T>>(stream, "GeluForward", 0, count, GeluSource<T>{{static_cast<const T*>(x.data)}},
                            static_cast<T*>(y.data));
  });
}

}  // namespace zerofleet::device::cuda
