// Spreads of every tensor's weights and gradients over the ranks of a view: each rank counts what it owns, once, and
// the counts of all are added. Which rank owned what, and in how many, makes no difference to the result.
//
// On a step with histograms gradients are read where they rest, on the host: for a device whose memory it can address.
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

  // This rank's shard of the unit's gradient, reduced, of the loss times `scale`.
  void AddGradient(int unit, device::Tensor shard, double scale);
  // The master weights that this rank owns.
  absl::Status AddWeights(const TrainingState& state);
  // Adds up all ranks' spreads, the same on each: every rank calls it. Tensors that are trained, in the table's order.
  absl::StatusOr<std::vector<TensorSpreads>> Sum();

 private:
  // Calls visit(tensor, first, count) for the pieces of tensors in a range of the flat space.
  template <typename Visit>
  void ForEachTensor(int64_t flat_begin, int64_t flat_end, const Visit& visit) const;
  absl::Status SumOver(collective::Communicator* group);

  const EngineParts& parts_;
  std::vector<TensorSpreads> spreads_;  // by tensor; frozen ones stay empty
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_HISTOGRAMS_H_
