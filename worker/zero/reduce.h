// Gradients from where the backward sums them to where they rest: reduced over the ranks, split or whole (ZeRO §5.2).
//
// A unit's gradient of one micro-batch is summed in fp32 in a slot (or straight into the resting vector where that is
// whole and fp32), or, where a pass makes each element once, written in the type in which it travels: in a slot, or
// where it rests whole. It is sent in one reduce-scatter as soon as its backward is done, and rests as layout.h says.
// In stage 0 an all-gather follows, which makes an all-reduce of the same bits as the other stages' reduce-scatter.
//
// In the order of samples (ZeroLayout::chains) that reduce-scatter starts from the resting values: the owner's sum of
// the micro-batches of all ranks so far.
//
// Where gradients come in bands, whose size does not depend on the model (ZeRO §6.2), they are rounded and stored at
// once where they rest whole, and go through buckets.h where they rest split.
#ifndef ZEROFLEET_WORKER_ZERO_REDUCE_H_
#define ZEROFLEET_WORKER_ZERO_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/zero/buckets.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/phases.h"
#include "worker/zero/slots.h"

namespace zerofleet::zero {

class GradientReducer {
 public:
  // Called for each unit, with this rank's shard of its gradient.
  struct Callbacks {
    // Called when a reduction is posted whose result is not added to anything; the shard is complete once `reduced` is.
    std::function<void(int unit, device::Tensor shard, const collective::Communicator::Pending& reduced)> reducing;
    // Called for each unit once a step: work enqueued from now on finds the shard reduced.
    std::function<absl::Status(int unit, device::Tensor shard)> at_rest;
  };

  GradientReducer(const EngineParts& parts, PhaseMarks& marks, Callbacks callbacks);

  // The resting gradients, of layout.gradient_dtype(); complete after Finish. Empty where gradients leave the device.
  device::Tensor resting() const { return resting_; }

  // Called before a step whose batch differs from the previous one's.
  void SetBatch(const StepBatch& batch);
  void BeginMicroBatch(int64_t micro_batch);
  // Where the unit's gradient is summed; zeroed by the first call for a sum that starts from zero.
  absl::StatusOr<float*> Gradient(int unit);
  // As ParameterSource::WrittenGradient.
  absl::StatusOr<device::Tensor> WrittenGradient(int unit);
  // Where the gradient is that has been made in one of these two.
  device::Tensor Made(int unit) const;
  absl::Status Deliver(int unit);
  // Used instead of Gradient and Deliver where gradients come in bands; see ParameterSource::DeliverBand.
  absl::Status DeliverBand(int unit, int64_t begin, int64_t count, device::Tensor values);
  // Work enqueued from now on finds every delivered gradient at rest; after the last micro-batch `at_rest` has been
  // called for all units.
  absl::Status Finish();

 private:
  struct Slot {
    void* memory = nullptr;    // a whole unit, fp32, narrowed in place before it is sent; or of the type in which it is
    float* staging = nullptr;  // this rank's shard of a later micro-batch, on its way to being added
    int draining = -1;         // unit whose reduction still reads this slot, or -1
    collective::Communicator::Pending sent;
  };

  // A slot's gradient in the type in which it travels.
  device::Tensor Wire(const Slot& slot) const { return {slot.memory, layout_.options().dtype}; }
  Slot& SlotOf(int unit) { return slots_[slot_plan_.slot_of_unit[unit]]; }
  // Rounds what is summed in the unit's slot into `to`; does nothing if it has been written there.
  void Narrow(int unit, device::Tensor to);
  bool last_micro_batch() const { return micro_batch_ + 1 == batch_.micro_batches; }
  void DeliverWhole(int unit);
  void DeliverSplit(int unit);
  void DeliverLink(int unit);
  absl::Status Drain(Slot& slot);
  // Where this rank's shard of the unit's gradient is reduced to.
  device::Tensor ReducedShard(int unit) const;
  absl::Status FinishWhole(size_t most_left);

  const EngineParts& parts_;
  const ZeroLayout& layout_;
  PhaseMarks& marks_;
  const Callbacks callbacks_;
  device::Tensor resting_;
  SlotPlan slot_plan_;
  std::vector<Slot> slots_;
  std::optional<GradientBuckets> buckets_;
  std::vector<int64_t> delivered_;  // by unit that is kept whole: elements delivered in bands
  std::vector<int64_t> begun_for_;  // by unit: the micro-batch its gradient was last begun for, or -1
  // Units that are kept whole, in the order in which they are reduced, and their reductions.
  std::deque<int> reducing_;
  std::vector<collective::Communicator::Pending> unit_reduced_;
  StepBatch batch_;
  int64_t micro_batch_ = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_REDUCE_H_
