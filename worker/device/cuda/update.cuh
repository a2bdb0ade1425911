// An optimizer's update (ops.h) over any number of segments, kMostSegments of them per launch.
//
// A rule is a struct of static functions, with kVectors fp32 state vectors beside the master weights:
//   static constexpr const char* kName;  // the op's name
//   static auto Make(const UpdateFactors&, bool decay);  // what every element of a segment needs
//   static float Update(made, float gradient, float weight, float (&states)[kVectors]);  // returns the new weight
// To add an optimizer, write its rule beside its op, as adamw.cu does.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_UPDATE_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_UPDATE_CUH_

#include <array>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/map.cuh"
#include "worker/device/element_math.h"
#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

inline constexpr int kUpdateLanes = 4;
inline constexpr int kMostSegments = 32;

struct UpdateSegment {
  int64_t first_item;  // this segment's first, among the launch's items
  int64_t offset;
  Split split;
  bool decay, vector_gradient, vector_parameter, vector_states;
};

// A launch's segments, passed as kernel parameters, which need no device memory and no copy.
struct UpdateSegments {
  int count = 0;
  int64_t items = 0;
  UpdateSegment row[kMostSegments];
};

template <int kVectors, typename G, typename P>
struct UpdateState {
  const G* gradient;
  float* master;
  float* vectors[kVectors];
  P* parameter;  // null where the master is the parameter
};

template <typename Rule, typename G, typename P>
__global__ void __launch_bounds__(kMapThreads)
    UpdateKernel(UpdateSegments segments, const StepControl* control, UpdateState<Rule::kVectors, G, P> state) {
  constexpr int kVectors = Rule::kVectors;
  if (control->apply == 0) return;
  const int64_t item = int64_t{blockIdx.x} * kMapThreads + threadIdx.x;
  if (item >= segments.items) return;
  int index = 0;
  for (int s = 1; s < segments.count; ++s) index += segments.row[s].first_item <= item ? 1 : 0;
  const UpdateSegment& segment = segments.row[index];
  const auto factors = Rule::Make(control->factors, segment.decay);
  segment.split.template ForItem<kUpdateLanes>(item - segment.first_item, [&](int64_t at, auto lane_count) {
    constexpr int kCount = lane_count.value;
    const int64_t i = segment.offset + at;
    float gradient[kCount], master[kCount], states[kVectors][kCount];
    LoadLanes(state.gradient + i, segment.vector_gradient, kCount, gradient);
    LoadLanes(state.master + i, true, kCount, master);
    for (int v = 0; v < kVectors; ++v) LoadLanes(state.vectors[v] + i, segment.vector_states, kCount, states[v]);
    for (int lane = 0; lane < kCount; ++lane) {
      float own[kVectors];
      for (int v = 0; v < kVectors; ++v) own[v] = states[v][lane];
      master[lane] = Rule::Update(factors, gradient[lane], master[lane], own);
      for (int v = 0; v < kVectors; ++v) states[v][lane] = own[v];
    }
    StoreLanes(master, true, kCount, state.master + i);
    for (int v = 0; v < kVectors; ++v) StoreLanes(states[v], segment.vector_states, kCount, state.vectors[v] + i);
    if (state.parameter != nullptr) {
      StoreLanes(master, segment.vector_parameter, kCount, state.parameter + i);
    }
  });
}

template <int kVectors, typename G, typename P>
UpdateSegment MakeUpdateSegment(const DecaySegment& from, const UpdateState<kVectors, G, P>& state,
                                int64_t first_item) {
  const Split split = Split::Of<kUpdateLanes>(state.master + from.offset, from.count);
  const int64_t first = from.offset + split.head;
  bool aligned = true;
  for (const float* vector : state.vectors) aligned = aligned && VectorAligned<kUpdateLanes>(vector + first);
  return {.first_item = first_item,
          .offset = from.offset,
          .split = split,
          .decay = from.decay,
          .vector_gradient = VectorAligned<kUpdateLanes>(state.gradient + first),
          .vector_parameter = state.parameter != nullptr && VectorAligned<kUpdateLanes>(state.parameter + first),
          .vector_states = aligned};
}

template <typename Rule, typename G, typename P>
void LaunchTypedUpdate(Stream& stream, std::span<const DecaySegment> segments, const StepControl* control,
                       const UpdateState<Rule::kVectors, G, P>& state) {
  while (!segments.empty()) {
    UpdateSegments launch;
    for (; !segments.empty() && launch.count < kMostSegments; segments = segments.subspan(1)) {
      ZF_CHECK(segments[0].count >= 0);
      const UpdateSegment segment = MakeUpdateSegment(segments[0], state, launch.items);
      launch.row[launch.count++] = segment;
      launch.items += segment.split.template Items<kUpdateLanes>();
    }
    const unsigned blocks = static_cast<unsigned>(CeilDivide(launch.items, kMapThreads));
    Launch(stream, Rule::kName, UpdateKernel<Rule, G, P>, dim3(blocks), dim3(kMapThreads), 0, launch, control, state);
  }
}

// `vectors` are in the order of the rule's states; parameter.data may be `master`.
template <typename Rule>
void LaunchUpdate(Stream& stream, std::span<const DecaySegment> segments, const StepControl* control, Tensor gradient,
                  float* master, const std::array<float*, Rule::kVectors>& vectors, Tensor parameter) {
  WithTypes(gradient.dtype, parameter.dtype, [&](auto gradient_tag, auto parameter_tag) {
    using G = typename decltype(gradient_tag)::Type;
    using P = typename decltype(parameter_tag)::Type;
    UpdateState<Rule::kVectors, G, P> state;
    state.gradient = static_cast<const G*>(gradient.data);
    state.master = master;
    for (size_t v = 0; v < vectors.size(); ++v) state.vectors[v] = vectors[v];
    state.parameter = parameter.data == master ? nullptr : static_cast<P*>(parameter.data);
    LaunchTypedUpdate<Rule, G, P>(stream, segments, control, state);
  });
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_UPDATE_CUH_
