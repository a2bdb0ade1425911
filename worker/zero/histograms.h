// Spreads of every tensor's weights and gradients over the ranks of a view: each rank counts what it owns, once, and
// all ranks' counts are added. The result does not depend on the number of ranks or on which rank owns what.
//
// On a step with histograms the host reads gradients where they rest, so the device's memory must be host-addressable.
#ifndef ZEROFLEET_WORKER_ZERO_HISTOGRAMS_H_
#define ZEROFLEET_WORKER_ZERO_HISTOGRAMS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/spread.h"
#include "worker/zero/training_state.h"

namespace zerofleet::zero {

struct TensorSpreads {
  std::string tensor;
  Spread weights, gradients;
};

class Histograms {
 public:
  explicit Histograms(const EngineParts& parts);

  // Counts this rank's shard of the unit's reduced gradient, which is that of the loss times `scale`.
  void AddGradient(int unit, device::Tensor shard, double scale);
  // Counts the master weights that this rank owns.
  absl::Status AddWeights(const TrainingState& state);
  // Adds up all ranks' spreads; every rank calls it and gets the same. Returns the trained tensors, in the table's
  // order.
  absl::StatusOr<std::vector<TensorSpreads>> Sum();

 private:
  // Calls visit(tensor, first, count) for each piece of a trained tensor within a range of the flat space.
  template <typename Visit>
  void ForEachTensor(int64_t flat_begin, int64_t flat_end, const Visit& visit) const;
  absl::Status SumOver(collective::Communicator* group);

  const EngineParts& parts_;
  std::vector<TensorSpreads> spreads_;  // by tensor; frozen ones stay empty
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_HISTOGRAMS_H_
