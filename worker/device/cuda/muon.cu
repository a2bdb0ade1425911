// Muon's ops beside its products (ops.h).
//
// Estimate: per element the direction reads 4 bytes of momentum and 2 or 4 of gradient, and writes 4 and 2; the move
// reads 8 and writes 4. Between the two, for a square matrix of side s, Newton-Schulz moves some 360 bytes per element
// and computes 30 s FLOP, in fp32. At s = 1600 and an H200's 67 TFLOP/s and 4.8 TB/s these are 0.7 ns per element of
// products and 0.08 ns of everything else, which is why these kernels are plain.
#include <cmath>

#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/map.cuh"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int kMuonLanes = 4;

template <typename G, typename T>
__global__ void __launch_bounds__(kMapThreads)
    MuonDirectionKernel(Split split, const StepControl* control, bool ahead, TensorSource<G> gradient, float* momentum,
                        T* to, bool vector_to) {
  if (control->apply == 0) return;
  const auto factors = element::MakeMuonElements<element::FloatMath>(control->factors);
  split.ForItem<kMuonLanes>(int64_t{blockIdx.x} * kMapThreads + threadIdx.x, [&](int64_t i, auto lane_count) {
    constexpr int kCount = lane_count.value;
    float lanes[kCount], moved[kCount];
    gradient.Load(i, lanes);
    LoadLanes(momentum + i, true, kCount, moved);
    for (int lane = 0; lane < kCount; ++lane) {
      lanes[lane] = element::MuonDirectionElement<element::FloatMath>(factors, lanes[lane], moved[lane]);
    }
    if (!ahead) StoreLanes(moved, true, kCount, momentum + i);
    StoreLanes(lanes, vector_to, kCount, to + i);
  });
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    MuonMoveKernel(Split split, const StepControl* control, bool decays, float scale, TensorSource<float> direction,
                   TensorSource<float> from, T* to) {
  if (control->apply == 0) return;
  const float decay = decays ? control->factors.decay : 1.0f;
  split.ForItem<kMuonLanes>(int64_t{blockIdx.x} * kMapThreads + threadIdx.x, [&](int64_t i, auto lane_count) {
    constexpr int kCount = lane_count.value;
    float lanes[kCount], along[kCount];
    from.Load(i, lanes);
    direction.Load(i, along);
    for (int lane = 0; lane < kCount; ++lane) {
      lanes[lane] = element::MuonMovedElement<element::FloatMath>(decay, scale, along[lane], lanes[lane]);
    }
    StoreLanes(lanes, true, kCount, to + i);
  });
}

struct NormalSource {
  const double* squares;
  double least;
  TensorSource<float> x;

  template <int kLanes>
  void Align(int64_t first) {
    x.Align<kLanes>(first);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    x.Load(i, lanes);
    const double norm = sqrt(*squares);
    const float factor = static_cast<float>(1 / (norm < least ? least : norm));
    for (float& lane : lanes) lane *= factor;
  }
};

unsigned Blocks(const Split& split) {
  return static_cast<unsigned>(CeilDivide(split.Items<kMuonLanes>(), kMapThreads));
}

}  // namespace

void CudaOps::MuonDirection(Stream& stream, const MuonDirectionArguments& p) {
  const Split split = Split::Of<kMuonLanes>(p.momentum, p.count);
  WithTypes(p.gradient.dtype, p.to.dtype, [&](auto gradient_tag, auto to_tag) {
    using G = typename decltype(gradient_tag)::Type;
    using T = typename decltype(to_tag)::Type;
    TensorSource<G> gradient{static_cast<const G*>(p.gradient.data)};
    gradient.template Align<kMuonLanes>(split.head);
    T* const to = static_cast<T*>(p.to.data);
    Launch(stream, "MuonDirection", MuonDirectionKernel<G, T>, dim3(Blocks(split)), dim3(kMapThreads), 0, split,
           p.control, p.ahead, gradient, p.momentum, to, VectorAligned<kMuonLanes>(to + split.head));
  });
}

void CudaOps::MuonMove(Stream& stream, const MuonMoveArguments& p) {
  WithType(p.to.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* const to = static_cast<T*>(p.to.data);
    const Split split = Split::Of<kMuonLanes>(to, p.count);
    TensorSource<float> direction{p.direction}, from{p.from};
    direction.Align<kMuonLanes>(split.head);
    from.Align<kMuonLanes>(split.head);
    Launch(stream, "MuonMove", MuonMoveKernel<T>, dim3(Blocks(split)), dim3(kMapThreads), 0, split, p.control, p.decays,
           p.scale, direction, from, to);
  });
}

void CudaOps::DivideByNorm(Stream& stream, int64_t count, const double* squares, double least, float* x) {
  LaunchMap<kMapLanes<float>>(stream, "DivideByNorm", 0, count, NormalSource{squares, least, {x}}, x);
}

}  // namespace zerofleet::device::cuda
