// Slots, prefetch and the gather after the update; see gather.h.
#include "worker/zero/gather.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {

ParameterGatherer::ParameterGatherer(const EngineParts& parts, PhaseMarks& marks)
    : parts_(parts),
      layout_(parts.layout),
      marks_(marks),
      resting_{(layout_.parameters_on_host() ? parts.host_arena : parts.device_arena).Take(kParametersRow),
               layout_.options().dtype},
      slots_(layout_.parameter_slots()),
      prefetch_(slots_),
      unit_ready_(layout_.units()),
      stream_waits_(layout_.units(), true) {
  if (layout_.parameters_on_host()) in_ = parts_.device.CreateStream().value();
  if (!layout_.stage().split_parameters) return;
  for (int s = 0; s < static_cast<int>(slots_.unit_of_slot.size()); ++s) {
    slot_memory_.push_back({parts_.device_arena.Take(ParameterSlotRow(s)), layout_.options().dtype});
  }
}

void ParameterGatherer::Begin(std::vector<int> uses) {
  if (layout_.stage().gather == ParameterGather::kBeforeUse) prefetch_.Begin(std::move(uses));
}

absl::StatusOr<device::Tensor> ParameterGatherer::Acquire(int unit) {
  if (layout_.stage().gather == ParameterGather::kBeforeUse) {
    for (int wanted : prefetch_.Acquire(unit)) Post(wanted);
  }
  if (stream_waits_[unit]) return Whole(unit);
  PhaseMarks::Within wait(marks_, StepPhase::kGather);
  ZF_RETURN_IF_ERROR(unit_ready_[unit].MakeStreamWait(parts_.stream));
  stream_waits_[unit] = true;
  return Whole(unit);
}

device::Tensor ParameterGatherer::Whole(int unit) const {
  return layout_.stage().gather == ParameterGather::kBeforeUse ? slot_memory_[slots_.slot_of_unit[unit]]
                                                               : resting_.Offset(layout_.UnitOffset(unit));
}

void ParameterGatherer::Release(int unit) {
  if (layout_.stage().gather == ParameterGather::kBeforeUse) prefetch_.Release(unit);
}

void ParameterGatherer::Post(int unit) {
  stream_waits_[unit] = false;
  if (in_ != nullptr) return PostFromHost(unit);
  unit_ready_[unit] = parts_.communicator.AllGather(
      resting_.Offset(layout_.ShardOffset(unit, /*split=*/true)), slot_memory_[slots_.slot_of_unit[unit]],
      layout_.partition().PaddedElements(unit), layout_.partition().unit(unit).name, parts_.stream.Record());
}

// The copy waits for what the stream was given before: the slot's last use, and the update of these parameters.
void ParameterGatherer::PostFromHost(int unit) {
  const coordinator::PlacedRange rest = layout_.RestingParameters(unit);
  const device::Tensor from = resting_.Offset(rest.offset);
  const device::Tensor to = Whole(unit).Offset(layout_.options().rank * layout_.partition().ShardElements(unit));
  const int64_t bytes = rest.elements() * device::DTypeBytes(from.dtype);
  in_->Wait(*parts_.stream.Record());
  parts_.device.Copy(*in_, to.data, from.data, bytes);
  link_.to_device.Add(bytes);
  unit_ready_[unit] = parts_.communicator.AllGather({}, Whole(unit), layout_.partition().PaddedElements(unit),
                                                    layout_.partition().unit(unit).name, in_->Record());
}

void ParameterGatherer::PublishUnit(int unit) {
  if (layout_.stage().gather != ParameterGather::kAfterUpdate || layout_.frozen(unit)) return;
  stream_waits_[unit] = false;
  unit_ready_[unit] = parts_.communicator.AllGather({}, resting_.Offset(layout_.UnitOffset(unit)),
                                                    layout_.partition().PaddedElements(unit),
                                                    layout_.partition().unit(unit).name, parts_.stream.Record());
}

absl::Status ParameterGatherer::Finish() {
  for (const collective::Communicator::Pending& pending : unit_ready_) ZF_RETURN_IF_ERROR(pending.Wait());
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
