// Slots, narrowing and reduction of gradients; see reduce.h.
#include "worker/zero/reduce.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {
namespace {

constexpr size_t kReducingAtATime = 2;  // as many as units of one kind have slots

}  // namespace

GradientReducer::GradientReducer(const EngineParts& parts, PhaseMarks& marks, Callbacks callbacks)
    : parts_(parts),
      layout_(parts.layout),
      marks_(marks),
      callbacks_(std::move(callbacks)),
      resting_{parts.device_arena.Take(kGradientsRow), layout_.gradient_dtype()},
      slot_plan_(layout_.gradient_slots()),
      begun_for_(layout_.units(), -1),
      unit_reduced_(layout_.units()),
      batch_(layout_.most_batch()) {
  if (!layout_.needs_gradient_slots()) return;
  if (layout_.gradients_in_bands()) {
    delivered_.resize(layout_.units());
    if (!layout_.stage().split_gradients) return;
    buckets_.emplace(parts_, marks, resting_,
                     [this](int unit) { return callbacks_.at_rest(unit, ReducedShard(unit)); });
    return;
  }
  for (int s = 0; s < static_cast<int>(slot_plan_.unit_of_slot.size()); ++s) {
    Slot& slot = slots_.emplace_back();
    const bool written_at_rest = layout_.GradientSlotBytes(slot_plan_.unit_of_slot[s]) == 0;
    if (written_at_rest || !SlotHasGradients(layout_, slot_plan_, s)) continue;
    slot.memory = parts_.device_arena.Take(GradientSlotRow(s));
    if (layout_.stage().split_gradients && layout_.accumulates() && !layout_.chains())
      slot.staging = parts_.device_arena.TakeAs<float>(GradientStagingRow(s));
  }
}

void GradientReducer::SetBatch(const StepBatch& batch) {
  batch_ = batch;
  if (buckets_) buckets_->SetMicroBatches(batch.micro_batches);
}

void GradientReducer::BeginMicroBatch(int64_t micro_batch) {
  ZF_CHECK(micro_batch < batch_.micro_batches);
  micro_batch_ = micro_batch;
  if (buckets_) buckets_->BeginMicroBatch(micro_batch);
  if (micro_batch == 0) begun_for_.assign(begun_for_.size(), -1);
}

absl::StatusOr<float*> GradientReducer::Gradient(int unit) {
  const int64_t bytes = layout_.partition().PaddedElements(unit) * device::DTypeBytes(device::DType::kF32);
  if (layout_.needs_gradient_slots()) {
    ZF_CHECK(layout_.GradientSlotBytes(unit) == bytes);
    Slot& slot = SlotOf(unit);
    if (begun_for_[unit] != micro_batch_) {
      ZF_RETURN_IF_ERROR(Drain(slot));
      parts_.ops().Zero(parts_.stream, slot.memory, bytes);
    }
  } else if (begun_for_[unit] == -1) {
    // Whole and fp32: micro-batches add to the same sum, begun once per step.
    parts_.ops().Zero(parts_.stream, Made(unit).data, bytes);
  }
  begun_for_[unit] = micro_batch_;
  return static_cast<float*>(Made(unit).data);
}

absl::StatusOr<device::Tensor> GradientReducer::WrittenGradient(int unit) {
  const bool adds = !layout_.needs_gradient_slots() && begun_for_[unit] != -1;
  if (!layout_.written(unit) || adds) return device::Tensor{};
  if (layout_.GradientSlotBytes(unit) > 0) ZF_RETURN_IF_ERROR(Drain(SlotOf(unit)));
  begun_for_[unit] = micro_batch_;
  const device::Tensor place = Made(unit);
  const int64_t elements = layout_.partition().unit(unit).elements(),
                padding = layout_.partition().PaddedElements(unit) - elements;
  if (padding > 0) {
    parts_.ops().Zero(parts_.stream, place.Offset(elements).data, padding * device::DTypeBytes(place.dtype));
  }
  return place;
}

device::Tensor GradientReducer::Made(int unit) const {
  if (layout_.GradientSlotBytes(unit) == 0) return resting_.Offset(layout_.TrainedUnitOffset(unit));
  const Slot& slot = slots_[slot_plan_.slot_of_unit[unit]];
  return {slot.memory, layout_.written(unit) ? layout_.options().dtype : device::DType::kF32};
}

void GradientReducer::Narrow(int unit, device::Tensor to) {
  const device::Tensor made = Made(unit);
  if (made.dtype == to.dtype) return;
  parts_.ops().Convert(parts_.stream, layout_.partition().PaddedElements(unit), made, to);
}

absl::Status GradientReducer::Deliver(int unit) {
  ZF_CHECK(begun_for_[unit] == micro_batch_);
  if (layout_.chains()) {
    DeliverLink(unit);
  } else if (layout_.stage().split_gradients) {
    DeliverSplit(unit);
  } else if (last_micro_batch()) {
    DeliverWhole(unit);
    // A gradient that leaves the device does so while the backward goes on.
    if (layout_.offloads()) return FinishWhole(kReducingAtATime);
  }
  return absl::OkStatus();
}

absl::Status GradientReducer::DeliverBand(int unit, int64_t begin, int64_t count, device::Tensor values) {
  if (buckets_) return buckets_->Add(unit, begin, count, values);
  parts_.ops().Convert(parts_.stream, count, values, resting_.Offset(layout_.TrainedUnitOffset(unit) + begin));
  delivered_[unit] += count;
  if (delivered_[unit] < layout_.partition().unit(unit).elements()) return absl::OkStatus();
  delivered_[unit] = 0;
  DeliverWhole(unit);
  return absl::OkStatus();
}

// Stages 0 and 1: the sum over micro-batches rests whole and is reduced in place, once.
void GradientReducer::DeliverWhole(int unit) {
  int64_t elements = layout_.partition().PaddedElements(unit);
  const std::string& name = layout_.partition().unit(unit).name;
  device::Tensor whole = resting_.Offset(layout_.TrainedUnitOffset(unit));
  device::Tensor shard = resting_.Offset(layout_.TrainedShardOffset(unit, /*split=*/false));
  if (!layout_.gradients_in_bands()) Narrow(unit, whole);
  unit_reduced_[unit] = parts_.communicator.ReduceScatter(whole, shard, elements, name, parts_.stream.Record());
  if (!layout_.stage().split_optimizer) {
    unit_reduced_[unit] = parts_.communicator.AllGather({}, whole, elements, name);
  }
  reducing_.push_back(unit);
  callbacks_.reducing(unit, ReducedShard(unit), unit_reduced_[unit]);
}

// Stages 2 and 3: every micro-batch's gradient is reduced on its own; later ones are added to the resting shard.
void GradientReducer::DeliverSplit(int unit) {
  Slot& slot = SlotOf(unit);
  int64_t elements = layout_.partition().PaddedElements(unit);
  const device::Tensor wire = Wire(slot);
  Narrow(unit, wire);
  device::Tensor shard = ReducedShard(unit);
  if (micro_batch_ > 0) shard = {slot.staging, device::DType::kF32};
  slot.sent = parts_.communicator.ReduceScatter(wire, shard, elements, layout_.partition().unit(unit).name,
                                                parts_.stream.Record());
  slot.draining = unit;
  if (!layout_.accumulates()) callbacks_.reducing(unit, shard, slot.sent);
}

// In the order of samples: a round's reduction starts from the resting sum of the rounds before. Stage 0 gathers the
// last sum.
void GradientReducer::DeliverLink(int unit) {
  Slot& slot = SlotOf(unit);
  const int64_t elements = layout_.partition().PaddedElements(unit);
  const std::string& name = layout_.partition().unit(unit).name;
  const device::Tensor wire = Wire(slot), shard = ReducedShard(unit);
  Narrow(unit, wire);
  const collective::SumChain chain{.initial = micro_batch_ > 0 ? static_cast<const float*>(shard.data) : nullptr,
                                   .contributors = layout_.Contributors(batch_, micro_batch_)};
  slot.sent = parts_.communicator.ReduceScatter(wire, shard, elements, name, parts_.stream.Record(), chain);
  if (last_micro_batch() && !layout_.stage().split_gradients) {
    slot.sent = parts_.communicator.AllGather({}, resting_.Offset(layout_.TrainedUnitOffset(unit)), elements, name);
  }
  slot.draining = unit;
}

// In the wire's memory, at the shard's place, where it is about to leave the device; otherwise where it rests.
device::Tensor GradientReducer::ReducedShard(int unit) const {
  if (!layout_.gradients_offloaded())
    return resting_.Offset(layout_.TrainedShardOffset(unit, layout_.stage().split_gradients));
  return Wire(slots_[slot_plan_.slot_of_unit[unit]])
      .Offset(layout_.options().rank * layout_.partition().ShardElements(unit));
}

// The stream waits until the slot's unit has been sent, and adds a later micro-batch's shard to the resting one.
absl::Status GradientReducer::Drain(Slot& slot) {
  if (slot.draining == -1) return absl::OkStatus();
  PhaseMarks::Within wait(marks_, StepPhase::kReduce);
  ZF_RETURN_IF_ERROR(slot.sent.MakeStreamWait(parts_.stream));
  int unit = std::exchange(slot.draining, -1);
  const device::Tensor rest = ReducedShard(unit);
  // `at_rest` below takes the part of the shard that leaves; the part that stays goes where it rests.
  const int64_t stays = layout_.gradients_offloaded() ? layout_.StaysOnDevice(unit) : 0;
  if (stays > 0) {
    const int64_t place = layout_.TrainedShardOffset(unit, /*split=*/true);
    parts_.ops().Convert(parts_.stream, stays, rest, resting_.Offset(place));
  }
  // A slot is drained before its next use, so it still holds the micro-batch that its unit was begun for.
  if (begun_for_[unit] > 0 && !layout_.chains()) {
    parts_.ops().Accumulate(parts_.stream, layout_.partition().ShardElements(unit),
                            device::Tensor{slot.staging, device::DType::kF32}, static_cast<float*>(rest.data));
  }
  return begun_for_[unit] + 1 == batch_.micro_batches ? callbacks_.at_rest(unit, rest) : absl::OkStatus();
}

// Waits for the reductions of units kept whole, in order, until at most `most_left` remain.
absl::Status GradientReducer::FinishWhole(size_t most_left) {
  while (reducing_.size() > most_left) {
    const int unit = reducing_.front();
    reducing_.pop_front();
    PhaseMarks::Within wait(marks_, StepPhase::kReduce);
    ZF_RETURN_IF_ERROR(unit_reduced_[unit].MakeStreamWait(parts_.stream));
    ZF_RETURN_IF_ERROR(callbacks_.at_rest(unit, ReducedShard(unit)));
  }
  return absl::OkStatus();
}

absl::Status GradientReducer::Finish() {
  for (Slot& slot : slots_) ZF_RETURN_IF_ERROR(Drain(slot));
  if (buckets_) ZF_RETURN_IF_ERROR(buckets_->Finish());
  return FinishWhole(0);
}

}  // namespace zerofleet::zero
