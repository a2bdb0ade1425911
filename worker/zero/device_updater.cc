// See device_updater.h. A failure of the ops sticks to the stream.
#include "worker/zero/device_updater.h"

#include <vector>

#include "base/check.h"

namespace zerofleet::zero {

void UpdateOnDevice(const UpdaterParts& parts, const TrainingState& state, const device::StepControl* control,
                    device::Tensor gradients, device::Tensor parameters) {
  for (int u = 0; u < parts.layout.units(); ++u) {
    const int64_t count = parts.layout.StaysOnDevice(u);
    if (count == 0) continue;
    const ZeroLayout::UpdatedRange piece = parts.layout.Updated(u);
    const std::vector<device::DecaySegment> segments = state.Segments(u, 0, count);
    state.gate().Await(piece.state_offset, count);
    parts.layout.optimizer().Apply(parts.device.ops(), parts.stream,
                                   {.segments = segments,
                                    .control = control,
                                    .gradient = gradients.Offset(piece.gradient_offset),
                                    .states = state.At(piece.state_offset),
                                    .parameter = parameters.Offset(piece.parameter_offset),
                                    .assigned = parts.layout.assigned(u)});
  }
}

void PublishOnDevice(const UpdaterParts& parts, const TrainingState& state, device::Tensor parameters, size_t vector) {
  for (int u = 0; u < parts.layout.units(); ++u) {
    const int64_t count = parts.layout.StaysOnDevice(u);
    if (count == 0) continue;
    const ZeroLayout::UpdatedRange piece = parts.layout.Updated(u);
    parts.device.ops().Convert(parts.stream, count, state.At(piece.state_offset)[vector],
                               parameters.Offset(piece.parameter_offset));
  }
}

DeviceUpdater::DeviceUpdater(const UpdaterParts& parts)
    : parts_(parts), state_(parts.spec, parts.layout, parts.device_arena, parts.host_arena, /*file=*/nullptr) {}

absl::Status DeviceUpdater::Initialize(uint64_t seed) {
  return state_.Initialize(seed, parts_.device.ops(), parts_.stream);
}

absl::Status DeviceUpdater::Update(const device::StepControl* control, device::Tensor gradients,
                                   device::Tensor parameters, bool delayed) {
  ZF_CHECK(!delayed);
  UpdateOnDevice(parts_, state_, control, gradients, parameters);
  return absl::OkStatus();
}

absl::Status DeviceUpdater::Publish(device::Tensor parameters, size_t vector) {
  PublishOnDevice(parts_, state_, parameters, vector);
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
