// One op of the optimizer per unit; see device_updater.h. A failure of theirs sticks to the stream.
#include "worker/zero/device_updater.h"

#include "base/check.h"

namespace zerofleet::zero {

DeviceUpdater::DeviceUpdater(const UpdaterParts& parts)
    : parts_(parts), state_(parts.spec, parts.layout, parts.device_arena) {}

absl::Status DeviceUpdater::Initialize(uint64_t seed) {
  state_.Initialize(seed, parts_.device.ops(), parts_.stream);
  return absl::OkStatus();
}

absl::Status DeviceUpdater::Update(const device::StepControl* control, device::Tensor gradients,
                                   device::Tensor parameters, bool delayed) {
  ZF_CHECK(!delayed);
  for (int u = 0; u < parts_.layout.units(); ++u) {
    const ZeroLayout::Piece piece = parts_.layout.Updated(u);
    parts_.layout.optimizer().update(parts_.device.ops(), parts_.stream,
                                     {.segments = state_.Segments(u),
                                      .control = control,
                                      .gradient = gradients.Offset(piece.gradient_offset),
                                      .states = state_.At(piece.state_offset),
                                      .parameter = parameters.Offset(piece.parameter_offset)});
  }
  return absl::OkStatus();
}

absl::Status DeviceUpdater::Publish(device::Tensor parameters) {
  for (int u = 0; u < parts_.layout.units(); ++u) {
    const ZeroLayout::Piece piece = parts_.layout.Updated(u);
    parts_.device.ops().Convert(parts_.stream, piece.elements(), state_.At(piece.state_offset)[0],
                                parameters.Offset(piece.parameter_offset));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
