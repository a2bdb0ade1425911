// Slots, prefetch and the gather after the update; see gather.h.
#include "worker/zero/gather.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {

ParameterGatherer::ParameterGatherer(const ZeroLayout& layout, device::Device& device, memory::Arena& device_arena,
                                     memory::Arena& host_arena, collective::Communicator& communicator,
                                     device::Stream& stream, PhaseMarks& marks)
    : layout_(layout),
      device_(device),
      communicator_(communicator),
      stream_(stream),
      marks_(marks),
      resting_{(layout.parameters_on_host() ? host_arena : device_arena).Take(kParametersRow), layout.options().dtype},
      slots_(PlanSlots(layout.unit_kinds())),
      prefetch_(slots_),
      unit_ready_(layout.units()),
      stream_waits_(layout.units(), true) {
  if (layout_.parameters_on_host()) in_ = device.CreateStream().value();
  if (!layout_.stage().split_parameters) return;
  for (int s = 0; s < static_cast<int>(slots_.unit_of_slot.size()); ++s) {
    slot_memory_.push_back({device_arena.Take(ParameterSlotRow(s)), layout_.options().dtype});
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
  ZF_RETURN_IF_ERROR(unit_ready_[unit].MakeStreamWait(stream_));
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
  unit_ready_[unit] = communicator_.AllGather(
      resting_.Offset(layout_.ShardOffset(unit, /*split=*/true)), slot_memory_[slots_.slot_of_unit[unit]],
      layout_.partition().PaddedElements(unit), layout_.partition().unit(unit).name, stream_.Record());
}

// Behind what the stream has been given: the slot's last use, and the update of these parameters.
void ParameterGatherer::PostFromHost(int unit) {
  const coordinator::PlacedRange rest = layout_.RestingParameters(unit);
  const device::Tensor from = resting_.Offset(rest.offset);
  const device::Tensor to = Whole(unit).Offset(layout_.options().rank * layout_.partition().ShardElements(unit));
  const int64_t bytes = rest.elements() * device::DTypeBytes(from.dtype);
  in_->Wait(*stream_.Record());
  device_.Copy(*in_, to.data, from.data, bytes);
  link_.to_device.Add(bytes);
  unit_ready_[unit] = communicator_.AllGather({}, Whole(unit), layout_.partition().PaddedElements(unit),
                                              layout_.partition().unit(unit).name, in_->Record());
}

void ParameterGatherer::PublishUnit(int unit) {
  if (layout_.stage().gather != ParameterGather::kAfterUpdate) return;
  stream_waits_[unit] = false;
  unit_ready_[unit] =
      communicator_.AllGather({}, resting_.Offset(layout_.UnitOffset(unit)), layout_.partition().PaddedElements(unit),
                              layout_.partition().unit(unit).name, stream_.Record());
}

absl::Status ParameterGatherer::Finish() {
  for (const collective::Communicator::Pending& pending : unit_ready_) ZF_RETURN_IF_ERROR(pending.Wait());
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
