// Slots, prefetch and the gather after the update; see gather.h.
#include "worker/zero/gather.h"

#include <utility>

#include "base/status.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet {

ParameterGatherer::ParameterGatherer(const ZeroLayout& layout, Arena& arena, Communicator& communicator, const Clock& clock)
    : layout_(layout), communicator_(communicator), clock_(clock),
      resting_{arena.Take(kParametersRow), layout.options().dtype}, slots_(PlanSlots(layout.partition())), order_(slots_),
      unit_ready_(layout.units()) {
  if (!layout_.stage().split_parameters) return;
  for (int s = 0; s < static_cast<int>(slots_.unit_of_slot.size()); ++s) {
    slot_memory_.push_back({arena.Take(ParameterSlotRow(s)), layout_.options().dtype});
  }
}

void ParameterGatherer::Begin(std::vector<int> uses) {
  if (layout_.stage().gather == ParameterGather::kBeforeUse) order_.Begin(std::move(uses));
}

absl::StatusOr<Tensor> ParameterGatherer::Acquire(int unit) {
  bool gathered = layout_.stage().gather == ParameterGather::kBeforeUse;
  if (gathered) {
    for (int wanted : order_.Acquire(unit)) Post(wanted);
  }
  ZF_RETURN_IF_ERROR(Wait(unit_ready_[unit]));
  return gathered ? slot_memory_[slots_.slot_of_unit[unit]] : resting_.Offset(layout_.UnitOffset(unit));
}

void ParameterGatherer::Release(int unit) {
  if (layout_.stage().gather == ParameterGather::kBeforeUse) order_.Release(unit);
}

void ParameterGatherer::Post(int unit) {
  unit_ready_[unit] = communicator_.AllGather(resting_.Offset(layout_.ShardOffset(unit, /*split=*/true)).data,
                                              slot_memory_[slots_.slot_of_unit[unit]].data,
                                              layout_.partition().PaddedElements(unit), layout_.options().dtype,
                                              layout_.partition().unit(unit).name);
}

void ParameterGatherer::PublishUpdate() {
  if (layout_.stage().gather != ParameterGather::kAfterUpdate) return;
  for (int u = 0; u < layout_.units(); ++u) {
    unit_ready_[u] = communicator_.AllGather(nullptr, resting_.Offset(layout_.UnitOffset(u)).data,
                                             layout_.partition().PaddedElements(u), layout_.options().dtype,
                                             layout_.partition().unit(u).name);
  }
}

absl::Status ParameterGatherer::Finish() {
  for (Communicator::Pending& pending : unit_ready_) ZF_RETURN_IF_ERROR(Wait(pending));
  return absl::OkStatus();
}

absl::Status ParameterGatherer::Wait(Communicator::Pending& pending) {
  double start = clock_.MonotonicSeconds();
  absl::Status status = pending.Wait();
  wait_seconds_ += clock_.MonotonicSeconds() - start;
  return status;
}

double ParameterGatherer::TakeWaitSeconds() { return std::exchange(wait_seconds_, 0.0); }

}  // namespace zerofleet
