// Spreads of every tensor's weights and gradients over the ranks of a view: each rank counts what it owns, once, and
// all ranks' counts are added. The result does not depend on the number of ranks or on which rank owns what.
//
// The host counts. It waits for the stream wherever it needs values, which are copied to it piece by piece, through a
// row of the plan: only a step that is drawn waits.
#ifndef ZEROFLEET_WORKER_ZERO_HISTOGRAMS_H_
#define ZEROFLEET_WORKER_ZERO_HISTOGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/memory/arena.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/layout.h"
#include "worker/zero/spread.h"
#include "worker/zero/training_state.h"

namespace zerofleet::zero {

struct TensorSpreads {
  std::string tensor;
  Spread weights, gradients;
};

class Histograms {
 public:
  // The rows of the plan: in host memory a piece of values, in the device's a spread of every rank of the larger group.
  // None where the layout says that no step is drawn.
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);

  // The arenas are made from a plan with those rows.
  explicit Histograms(const EngineParts& parts);

  // Called when a step that is drawn begins; it is until Sum.
  void Begin();
  bool drawing() const { return !spreads_.empty(); }

  // Counts this rank's shard of the unit's reduced gradient, which the stream has written and which is that of the loss
  // times `*scale`, in device memory.
  absl::Status AddGradient(int unit, device::Tensor shard, const double* scale);
  // Counts the master weights that this rank owns.
  absl::Status AddWeights(const TrainingState& state);
  // Adds up all ranks' spreads; every rank calls it and gets the same. Returns the trained tensors, in the table's
  // order.
  absl::StatusOr<std::vector<TensorSpreads>> Sum();

 private:
  // Calls visit(tensor, first, count), which returns a status, for each piece of a trained tensor within what this rank
  // counts of the unit; a piece fits in staging_.
  template <typename Visit>
  absl::Status ForEachPiece(int unit, const Visit& visit) const;
  // Returns when staging_ has these bytes, as the stream leaves them.
  absl::Status Fetch(const void* from, int64_t bytes);
  absl::Status SumOver(collective::Communicator* group);
  // Collective: `mine` becomes the sum of every rank's.
  absl::Status AddUp(collective::Communicator& group, Spread& mine);

  const EngineParts& parts_;
  std::byte* const staging_;            // host memory
  Spread* const gathered_;              // device memory, by number in a group
  std::vector<TensorSpreads> spreads_;  // by tensor, frozen ones stay empty; none while no step is drawn
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_HISTOGRAMS_H_
