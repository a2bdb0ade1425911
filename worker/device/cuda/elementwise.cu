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

}  // namespace

void CudaOps::GeluForward(Stream& stream, int64_t count, Tensor x, Tensor y) {
  WithType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchMap<kMapLanes<T>>(stream, "GeluForward", 0, count, GeluSource<T>{{static_cast<const T*>(x.data)}},
                            static_cast<T*>(y.data));
  });
}

}  // namespace zerofleet::device::cuda
