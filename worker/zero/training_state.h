// The optimizer states that a rank holds between steps, master weights first, over what it updates.
//
// The optimizer's row (worker/optim/optimizer.h) says which vectors there are. In stage 0 they cover the whole model,
// in the other stages this rank's shards. In a checkpoint a rank always stores what it owns, unpadded.
#ifndef ZEROFLEET_WORKER_ZERO_TRAINING_STATE_H_
#define ZEROFLEET_WORKER_ZERO_TRAINING_STATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/partition.h"
#include "worker/device/device.h"
#include "worker/device/ops.h"
#include "worker/memory/arena.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"
#include "worker/zero/layout.h"
#include "worker/zero/save_gate.h"
#include "worker/zero/state_file.h"

namespace zerofleet::zero {

class TrainingState {
 public:
  // The rows of the plan that hold the state, one per vector and named after it, in each space where states are kept.
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);
  // The bytes that a rank of the data group stores in a checkpoint: this rank, `rank`, or the rank that stores most.
  static int64_t StoredBytes(const ZeroLayout& layout) { return StoredBytes(layout, layout.options().rank); }
  static int64_t StoredBytes(const ZeroLayout& layout, int rank);
  static int64_t MostStoredBytes(const ZeroLayout& layout);

  // The arenas are made from a plan with those rows. `file` holds the states on the host where the layout says so; if
  // it is null there, as in a dry run, those states do not exist.
  TrainingState(const model::ModelSpec& spec, const ZeroLayout& layout, memory::Arena& device_arena,
                memory::Arena& host_arena, StateFile* file);

  size_t vector_count() const { return layout_.optimizer().vectors.size(); }
  int64_t ElementBytes(size_t vector) const { return device::DTypeBytes(layout_.optimizer().vectors[vector].dtype); }
  // The vectors, in the order of the optimizer's table; the whole state must be in one space.
  const optim::StateTensors& vectors() const;
  float* master() const { return static_cast<float*>(vectors()[0].data); }
  // The vectors from `offset` on, up to where the states in the same space end.
  optim::StateTensors At(int64_t offset) const;

  // Enqueues a copy of elements [offset, offset + elements) of a vector to host memory, wherever the states are; or
  // back. Returns errors of the file.
  absl::Status CopyOut(device::Device& device, device::Stream& stream, size_t vector, int64_t offset, int64_t elements,
                       void* to) const;
  absl::Status CopyIn(device::Device& device, device::Stream& stream, size_t vector, int64_t offset, int64_t elements,
                      const void* from);

  // Master weights as the tensor table says, from the seed alone; the other vectors as the optimizer's table says.
  absl::Status Initialize(uint64_t seed, device::Ops& ops, device::Stream& stream);

  // Zeroes all vectors: what is loaded does not cover the padding.
  absl::Status Clear(device::Ops& ops, device::Stream& stream);

  // The initial values of flat range [flat_begin, flat_end), which any rank can make for any range. They depend only on
  // the seed and an element's place in the whole model.
  void FillInitial(int64_t flat_begin, int64_t flat_end, uint64_t seed, device::Ops& ops, device::Stream& stream,
                   float* to) const;

  // What to read of a checkpoint, and where it goes in the vectors.
  std::vector<coordinator::PlacedRange> RangesToLoad() const;
  // What to store in a checkpoint: owned ranges with their places in the vectors, in the order of
  // PartitionMap::StoredRanges.
  std::vector<coordinator::PlacedRange> RangesToStore() const;
  // Whether this rank stores all that it loads: not in stage 0 with several ranks.
  bool LoadsWhatItStores() const { return RangesToLoad() == RangesToStore(); }

  // The update passes this gate (Await), tile by tile, before it overwrites states that a save may be reading.
  SaveGate& gate() const { return gate_; }

  // The decay rules of elements [begin, begin + count) of what this rank updates of a unit, by offset from `begin`.
  std::vector<device::DecaySegment> Segments(int unit, int64_t begin, int64_t count) const;

 private:
  const model::ModelSpec& spec_;
  const ZeroLayout& layout_;
  // What one space holds: elements [begin, end) of each vector; `vectors` is empty where they are in the file.
  struct Place {
    int64_t begin = 0, end = 0;
    optim::StateTensors vectors;
  };
  void ClearMemory(device::Ops& ops, device::Stream& stream);
  // Fills the file tile by tile with `fill(tile, its pieces)`.
  absl::Status FillFile(device::Stream& stream,
                        const std::function<void(const StateTile& tile, const optim::StateTensors& pieces)>& fill);
  // Calls `visit(place, first element, count, done before)` for each run of elements in one place.
  using Visit = std::function<absl::Status(const Place& place, int64_t first, int64_t count, int64_t done)>;
  absl::Status ForEachRun(int64_t offset, int64_t elements, const Visit& visit) const;

  StateFile* const file_;
  std::vector<Place> places_;                                // in the order of the elements
  std::vector<std::vector<device::DecaySegment>> segments_;  // by unit
  mutable SaveGate gate_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_TRAINING_STATE_H_
