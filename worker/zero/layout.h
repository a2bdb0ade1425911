// Where every element of the training state is stored on this rank, for one stage.
//
// A vector (parameters, gradients, one of the optimizer's state vectors) is stored whole or split. Whole: the padded
// units one after another. Split: this rank's shard of each unit one after another. The partition is the same in every
// stage, so what a rank owns, reduces and stores never depends on the stage.
#ifndef ZEROFLEET_WORKER_ZERO_LAYOUT_H_
#define ZEROFLEET_WORKER_ZERO_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/partition.h"
#include "worker/device/dtype.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"
#include "worker/zero/slots.h"
#include "worker/zero/stage.h"
#include "worker/zero/state_placement.h"

namespace zerofleet::zero {

struct ZeroOptions {
  int stage = 0;
  device::DType dtype = device::DType::kBF16;  // the type of parameters, activations, and gradients on the wire
  int64_t micro_batches = 1;                   // per rank, in the largest optimizer step
  int rank = 0, world_size = 1;                // in the data group
  const optim::OptimizerRow* optimizer = &optim::Optimizers().front();
  ReduceEvery reduce = ReduceEvery::kMicroBatch;  // makes no difference to a step of one micro-batch
  ReduceOrder order = ReduceOrder::kRanks;
  int64_t leaves = 0;        // in the order of samples: micro-batches of all ranks per step; the last ranks may idle
  int64_t bucket_bytes = 0;  // gradients travel in buckets of this size; 0: a unit at a time
  StatePlacement placement = {};
  bool histograms = false;  // whether steps may be drawn (histograms.h)
};

// What a step's batch is cut into: micro-batches per rank, and, in the order of samples, micro-batches of all ranks.
struct StepBatch {
  int64_t micro_batches = 0, leaves = 0;
};

class ZeroLayout {
 public:
  ZeroLayout(const model::ModelSpec& spec, const ZeroOptions& options);

  const ZeroOptions& options() const { return options_; }
  const StageRow& stage() const { return stage_; }
  const optim::OptimizerRow& optimizer() const { return *options_.optimizer; }
  const coordinator::PartitionMap& partition() const { return partition_; }
  int units() const { return partition_.unit_count(); }
  // A frozen unit has only parameters: no gradient, no optimizer states and no reduction, and it is never published.
  bool frozen(int unit) const { return partition_.unit(unit).frozen; }
  // Ranges of an unfrozen unit whose gradient counts as zero, so that no update changes them: the unit's frozen
  // tensors. Offsets count from the unit's beginning.
  struct HeldRange {
    int64_t begin, elements;
  };
  // Whether the update of the unit's tensors assigns them what is reduced (model::TensorSpec::assigned).
  bool assigned(int unit) const { return assigned_[unit]; }
  const std::vector<HeldRange>& Held(int unit) const { return held_[unit]; }
  const std::vector<model::UnitKind>& unit_kinds() const { return unit_kinds_; }
  // The whole-unit buffers that units take in turn.
  const SlotPlan& parameter_slots() const { return parameter_slots_; }
  const SlotPlan& gradient_slots() const { return gradient_slots_; }
  // Whether the model is foreign (worker/model/foreign.h): a script says in which order units are used, nothing shares
  // memory with its passes, and the passes report what the loss is divided by.
  bool scripted() const { return scripted_; }
  // The unit whose backward is the first to add to this one's gradient (ModelSpec::FirstGradientOf).
  int FirstGradientOf(int unit) const { return first_gradients_[unit]; }
  // As in ModelSpec: the number of units of a pass, and the unit in whose backward this unit's gradient is made.
  int passed_units() const { return passed_units_; }
  int PassedWith(int unit) const { return passed_with_[unit]; }

  // For an optimizer that works on whole matrices (those of a block's products): which units have any, and the largest
  // sizes in elements. A unit's size is this part's, with padding; a matrix's is the whole model's; a Gram matrix is
  // the square of its matrix's shorter side.
  struct WholeMatrices {
    std::vector<bool> in_unit;
    int64_t largest_unit = 0, largest = 0, largest_gram = 0;
  };
  const WholeMatrices& whole_matrices() const { return whole_matrices_; }
  static bool IsWholeMatrix(const model::TensorSpec& tensor) { return tensor.projects && !tensor.frozen; }

  // Whether a step's gradients are one chain of sums over the leaves: in round j rank r computes leaf j * N + r, and
  // the owner adds to the sum of the rounds before. A chain of one round needs no case of its own.
  bool chains() const { return options_.order == ReduceOrder::kSamples; }
  // How many ranks (the first ones) compute a leaf in this round; the others run a pass that does not count. A chain
  // may end within its last round.
  int Contributors(const StepBatch& batch, int64_t micro_batch) const;
  // The number of this rank's micro-batches that count: all, or all but the last.
  int64_t CountedMicroBatches(const StepBatch& batch) const;
  // The batch of the largest step.
  StepBatch most_batch() const { return {options_.micro_batches, options_.leaves}; }

  // One micro-batch: gradients travel and rest in the compute type. Several: they are summed in fp32, so they rest in
  // fp32; stages that keep them whole then also reduce them in fp32, once; those that split them reduce each
  // micro-batch's in the compute type and sum the shards.
  bool accumulates() const { return options_.micro_batches > 1 || chains(); }
  device::DType gradient_dtype() const { return accumulates() ? device::DType::kF32 : options_.dtype; }

  // Whether a whole unit's gradient needs memory outside the resting gradients while the backward sums it.
  bool needs_gradient_slots() const {
    return stage_.split_gradients || chains() || gradient_dtype() != device::DType::kF32;
  }

  // Whether a pass makes each element of the unit's gradient once, so that a slot, or where there is none the resting
  // gradients, take it in the type in which it travels (ParameterSource::WrittenGradient).
  bool written(int unit) const { return !scripted_ && unit_kinds_[unit] == model::UnitKind::kBlock; }
  // Bytes of a slot that holds the unit's gradient; 0 if it is written where it rests.
  int64_t GradientSlotBytes(int unit) const;

  // Whether those slots are replaced by buffers of a constant size (ZeRO §6.2).
  bool gradients_in_bands() const { return options_.bucket_bytes > 0 && needs_gradient_slots(); }
  // Elements of gradients on the wire that one bucket holds.
  int64_t bucket_elements() const { return options_.bucket_bytes / device::DTypeBytes(options_.dtype); }

  // Whether a bucket's sums are wider than its gradients, so that they need memory of their own.
  bool stages_buckets() const { return gradient_dtype() != options_.dtype; }

  bool offloads() const { return states_on_device() < optimizer_elements(); }
  bool states_in_file() const { return offloads() && options_.placement.residence == StatePlacement::Residence::kFile; }
  bool speculates() const { return offloads() && options_.placement.timing == StatePlacement::Timing::kSpeculative; }
  // Whether a step's update may be applied by the next step.
  bool delays() const { return options_.placement.timing == StatePlacement::Timing::kDelayed; }
  bool looks_ahead() const { return delays() && options_.placement.looks_ahead; }
  // How many elements of a state vector are on the device: the first ones; the others are on the host. The states that
  // stay are those of the units that a forward pass needs first: their gradients are the last to be reduced.
  int64_t states_on_device() const { return states_on_device_; }
  int64_t states_on_host() const { return optimizer_elements() - states_on_device(); }
  // How many of the unit's elements that this rank updates (Updated) have their states on the device: the first ones.
  int64_t StaysOnDevice(int unit) const;
  // Whether a reduced gradient leaves the device from where it was reduced, so that only the gradients of states that
  // stay rest there (ZeRO-Offload §4.1). Gradients that are summed over micro-batches, or kept whole, rest on the
  // device until the last micro-batch is done.
  bool gradients_offloaded() const { return offloads() && stage_.split_gradients && !accumulates(); }

  // Whether parameters that are not in use are in host memory.
  bool parameters_on_host() const { return options_.placement.parameters_on_host; }
  int64_t parameter_elements() const {
    return stage_.split_parameters ? partition_.TotalShardElements() : partition_.TotalPaddedElements();
  }
  // Elements of gradients that rest on the device.
  int64_t gradient_elements() const {
    return gradients_offloaded() ? states_on_device() : TrainedElements(stage_.split_gradients);
  }
  int64_t optimizer_elements() const { return TrainedElements(stage_.split_optimizer); }

  // Where the unit begins in parameters that rest whole.
  int64_t UnitOffset(int unit) const { return unit_offset_[unit]; }
  // Where this rank's shard of the unit begins in the parameters, stored split or whole.
  int64_t ShardOffset(int unit, bool split) const;
  // The same offsets in a vector of gradients or optimizer states, which has no frozen units.
  int64_t TrainedUnitOffset(int unit) const { return partition_.TrainedShardOffset(unit) * options_.world_size; }
  int64_t TrainedShardOffset(int unit, bool split) const;

  // The unpadded flat range of a unit that this rank owns: what it adds to the gradient norm and stores in a
  // checkpoint. The offset is that in a split vector.
  coordinator::PlacedRange Owned(int unit) const { return partition_.Owned(unit, options_.rank); }
  // The unpadded flat range of a unit whose parameters rest with this rank between steps: the whole unit, or in stage 3
  // what it owns; the offset is that in the resting parameters.
  coordinator::PlacedRange RestingParameters(int unit) const;
  // The unpadded flat range of a unit this rank updates: what it owns, in stage 0 the whole unit, and nothing of a
  // frozen one; and where that is stored in each vector.
  struct UpdatedRange {
    int64_t flat_begin, flat_end;
    int64_t parameter_offset, gradient_offset, state_offset;
    int64_t elements() const { return flat_end - flat_begin; }
  };
  UpdatedRange Updated(int unit) const;

  // The part of the model that this flat space covers. Its ranks are one data group; every other part has as many
  // ranks.
  const model::ModelPart& part() const { return part_; }
  // The ranges of this rank's shard of the unit that count in sums over all ranks, so that tensors that every part has
  // count once; offsets count from the shard's beginning. In a whole model they are all of the shard, and of an
  // assigned unit none.
  struct ShardRange {
    int64_t begin, elements;
  };
  const std::vector<ShardRange>& Counted(int unit) const { return counted_[unit]; }
  // The number of counted ranges of all units, and of the units before `unit`.
  int64_t counted_ranges() const { return FirstCounted(units()); }
  int64_t FirstCounted(int unit) const { return first_counted_[unit]; }

  // Two layouts are equal exactly when their texts are.
  std::string Describe(const model::ModelSpec& spec) const;

 private:
  std::vector<HeldRange> HeldIn(const model::ModelSpec& spec, int unit) const;
  WholeMatrices MatricesIn(const model::ModelSpec& spec) const;
  std::vector<ShardRange> CountedIn(const model::ModelSpec& spec, int unit) const;
  int64_t TrainedElements(bool split) const {
    return split ? partition_.TrainedShardElements() : partition_.TrainedPaddedElements();
  }

  ZeroOptions options_;
  const StageRow& stage_;
  coordinator::PartitionMap partition_;
  std::vector<model::UnitKind> unit_kinds_;
  SlotPlan parameter_slots_, gradient_slots_;
  bool scripted_ = false;
  std::vector<int> first_gradients_;          // by unit
  std::vector<int> passed_with_;              // by unit: the unit of a pass whose backward makes its gradient
  int passed_units_;                          // units of a pass
  std::vector<std::vector<HeldRange>> held_;  // by unit
  std::vector<bool> assigned_;                // by unit
  WholeMatrices whole_matrices_;
  int64_t states_on_device_ = 0;
  std::vector<int64_t> unit_offset_;
  model::ModelPart part_;
  std::vector<std::vector<ShardRange>> counted_;  // by unit
  std::vector<int64_t> first_counted_ = {0};      // counted ranges before each unit, then of all units
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_LAYOUT_H_
