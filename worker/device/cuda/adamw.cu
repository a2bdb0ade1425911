// AdamW (ops.h) over any number of segments, kMostSegments of them per launch.
//
// Estimate: an element moves 12 bytes of state in and 12 out, 2 or 4 of gradient in and 2 or 4 of parameter out (none
// where the parameter is the master itself): 28 bytes in bf16. 124.4M parameters over an H200's 4.8 TB/s are 0.73 ms;
// the goal is 0.90 of the rate of a plain copy on the same device. Arithmetic is some 60 instructions per element,
// while 250 could issue in the time its bytes take.
#include "base/check.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/map.cuh"
#include "worker/device/element_math.h"

namespace zerofleet::cuda {
namespace {

constexpr int kLanes = 4;
constexpr int kMostSegments = 32;

struct Segment {
  int64_t first_item;  // of this segment, among the launch's items
  int64_t offset;
  Split split;
  bool decay, vector_gradient, vector_parameter, vector_moments;
};

// A launch's segments, passed as kernel parameters: no memory to copy them to, no copy to wait for.
struct Segments {
  int count = 0;
  int64_t items = 0;
  Segment row[kMostSegments];
};

template <typename G, typename P>
struct State {
  const G* gradient;
  float *master, *exp_avg, *exp_avg_sq;
  P* parameter;  // null where the master is the parameter
};

template <typename G, typename P>
__global__ void __launch_bounds__(kMapThreads)
    AdamWKernel(Segments segments, const StepControl* control, State<G, P> state) {
  if (control->apply == 0) return;
  const int64_t item = int64_t{blockIdx.x} * kMapThreads + threadIdx.x;
  if (item >= segments.items) return;
  int index = 0;
  for (int s = 1; s < segments.count; ++s) index += segments.row[s].first_item <= item ? 1 : 0;
  const Segment& segment = segments.row[index];
  const auto factors = element::MakeAdamWElements<element::FloatMath>(control->factors, segment.decay);
  segment.split.ForItem<kLanes>(item - segment.first_item, [&](int64_t at, auto lane_count) {
    constexpr int kCount = lane_count.value;
    const int64_t i = segment.offset + at;
    float gradient[kCount], master[kCount], exp_avg[kCount], exp_avg_sq[kCount];
    LoadLanes(state.gradient + i, segment.vector_gradient, kCount, gradient);
    LoadLanes(state.master + i, true, kCount, master);
    LoadLanes(state.exp_avg + i, segment.vector_moments, kCount, exp_avg);
    LoadLanes(state.exp_avg_sq + i, segment.vector_moments, kCount, exp_avg_sq);
    for (int lane = 0; lane < kCount; ++lane) {
      master[lane] = element::AdamWElement<element::FloatMath>(factors, gradient[lane], master[lane], exp_avg[lane],
                                                               exp_avg_sq[lane]);
    }
    StoreLanes(master, true, kCount, state.master + i);
    StoreLanes(exp_avg, segment.vector_moments, kCount, state.exp_avg + i);
    StoreLanes(exp_avg_sq, segment.vector_moments, kCount, state.exp_avg_sq + i);
    if (state.parameter != nullptr) {
      StoreLanes(master, segment.vector_parameter, kCount, state.parameter + i);
    }
  });
}

template <typename G, typename P>
Segment MakeSegment(const DecaySegment& from, const State<G, P>& state, int64_t first_item) {
  const Split split = Split::Of<kLanes>(state.master + from.offset, from.count);
  const int64_t first = from.offset + split.head;
  return {.first_item = first_item,
          .offset = from.offset,
          .split = split,
          .decay = from.decay,
          .vector_gradient = VectorAligned<kLanes>(state.gradient + first),
          .vector_parameter = state.parameter != nullptr && VectorAligned<kLanes>(state.parameter + first),
          .vector_moments =
              VectorAligned<kLanes>(state.exp_avg + first) && VectorAligned<kLanes>(state.exp_avg_sq + first)};
}

template <typename G, typename P>
void LaunchAdamW(Stream& stream, std::span<const DecaySegment> segments, const StepControl* control,
                 const State<G, P>& state) {
  while (!segments.empty()) {
    Segments launch;
    for (; !segments.empty() && launch.count < kMostSegments; segments = segments.subspan(1)) {
      ZF_CHECK(segments[0].count >= 0);
      const Segment segment = MakeSegment(segments[0], state, launch.items);
      launch.row[launch.count++] = segment;
      launch.items += segment.split.Items<kLanes>();
    }
    const unsigned blocks = static_cast<unsigned>(CeilDivide(launch.items, kMapThreads));
    Launch(stream, "AdamW", AdamWKernel<G, P>, dim3(blocks), dim3(kMapThreads), 0, launch, control, state);
  }
}

}  // namespace

void CudaOps::AdamW(Stream& stream, std::span<const DecaySegment> segments, const StepControl* control, Tensor gradient,
                    float* master, float* exp_avg, float* exp_avg_sq, Tensor parameter) {
  WithTypes(gradient.dtype, parameter.dtype, [&](auto gradient_tag, auto parameter_tag) {
    using G = typename decltype(gradient_tag)::Type;
    using P = typename decltype(parameter_tag)::Type;
    P* const result = parameter.data == master ? nullptr : static_cast<P*>(parameter.data);
    LaunchAdamW(stream, segments, control,
                State<G, P>{static_cast<const G*>(gradient.data), master, exp_avg, exp_avg_sq, result});
  });
}

}  // namespace zerofleet::cuda
