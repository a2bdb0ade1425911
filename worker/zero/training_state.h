// The optimizer states that a rank holds between steps, master weights first, over what it updates.
//
// Which vectors there are says the optimizer's row (worker/optim/optimizer.h). In stage 0 they cover the whole model,
// in the others this rank's shards. What a rank stores in a checkpoint is always what it owns, unpadded, whatever the
// stage.
#ifndef ZEROFLEET_WORKER_ZERO_TRAINING_STATE_H_
#define ZEROFLEET_WORKER_ZERO_TRAINING_STATE_H_

#include <cstdint>
#include <vector>

#include "coordinator/partition.h"
#include "worker/device/device.h"
#include "worker/device/ops.h"
#include "worker/memory/arena.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"
#include "worker/zero/layout.h"

namespace zerofleet::zero {

class TrainingState {
 public:
  // The rows of the plan that hold it, one per vector and named after it, in the space where the state is kept.
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout, memory::Space space);
  // Bytes of what a rank of the data group stores in a checkpoint: this one, that one, or the one that stores most.
  static int64_t StoredBytes(const ZeroLayout& layout) { return StoredBytes(layout, layout.options().rank); }
  static int64_t StoredBytes(const ZeroLayout& layout, int rank);
  static int64_t MostStoredBytes(const ZeroLayout& layout);

  // `arena` is of a plan with those rows.
  TrainingState(const model::ModelSpec& spec, const ZeroLayout& layout, memory::Arena& arena);

  // The vectors, in the order of the optimizer's table, whole or from `offset` on.
  const optim::StateTensors& vectors() const { return vectors_; }
  optim::StateTensors At(int64_t offset) const;
  float* master() const { return static_cast<float*>(vectors_[0].data); }

  // Master weights as the tensor table says, from the seed alone; the other vectors as the optimizer's table says.
  void Initialize(uint64_t seed, device::Ops& ops, device::Stream& stream);

  // All vectors zero: what is loaded has no padding.
  void Clear(device::Ops& ops, device::Stream& stream) const;

  // The initial values of flat range [flat_begin, flat_end), which any rank can make of any part of the model. They
  // depend on an element's place in the whole model alone.
  void FillInitial(int64_t flat_begin, int64_t flat_end, uint64_t seed, device::Ops& ops, device::Stream& stream,
                   float* to) const;

  // What to read of a checkpoint, and where it goes in the vectors.
  std::vector<coordinator::PlacedRange> RangesToLoad() const;
  // What to store: owned ranges with their places in the vectors, in the order of PartitionMap::StoredRanges.
  std::vector<coordinator::PlacedRange> RangesToStore() const;
  // Whether what it stores is all that it loads: not in stage 0 with several ranks.
  bool LoadsWhatItStores() const { return RangesToLoad() == RangesToStore(); }

  // The decay rules of what this rank updates of a unit.
  const std::vector<device::DecaySegment>& Segments(int unit) const { return segments_[unit]; }

 private:
  const model::ModelSpec& spec_;
  const ZeroLayout& layout_;
  optim::StateTensors vectors_;
  std::vector<std::vector<device::DecaySegment>> segments_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_TRAINING_STATE_H_
