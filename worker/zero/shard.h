// The training state this rank holds between steps: fp32 master weights and moments, over what it updates.
//
// In stage 0 that is the whole model, in the others this rank's shards. What a rank stores in a checkpoint is always
// what it owns, unpadded, whatever the stage.
#ifndef ZEROFLEET_WORKER_ZERO_SHARD_H_
#define ZEROFLEET_WORKER_ZERO_SHARD_H_

#include <cstdint>
#include <vector>

#include "coordinator/partition.h"
#include "worker/device/device.h"
#include "worker/device/ops.h"
#include "worker/memory/arena.h"
#include "worker/model/spec.h"
#include "worker/optim/adamw.h"
#include "worker/zero/layout.h"

namespace zerofleet {

class TrainingState {
 public:
  TrainingState(const ModelSpec& spec, const ZeroLayout& layout, Arena& arena);

  const AdamWState& vectors() const { return vectors_; }
  AdamWState At(int64_t offset) const {
    return {vectors_.master + offset, vectors_.exp_avg + offset, vectors_.exp_avg_sq + offset};
  }

  // Master weights as the tensor table says, from the seed alone; zero moments.
  void Initialize(uint64_t seed, Ops& ops, Stream& stream);

  // The initial values of flat range [flat_begin, flat_end), which any rank can make of any part of the model.
  void FillInitial(int64_t flat_begin, int64_t flat_end, uint64_t seed, Ops& ops, Stream& stream, float* to) const;

  // What to read of a checkpoint, and where it goes in the three vectors.
  std::vector<PlacedRange> RangesToLoad() const;
  // What to store: owned ranges with their places in the three vectors, in the order of PartitionMap::StoredRanges.
  std::vector<PlacedRange> RangesToStore() const;

  // The decay rules of what this rank updates of a unit.
  const std::vector<DecaySegment>& Segments(int unit) const { return segments_[unit]; }

 private:
  const ModelSpec& spec_;
  const ZeroLayout& layout_;
  AdamWState vectors_;
  std::vector<std::vector<DecaySegment>> segments_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_ZERO_SHARD_H_
