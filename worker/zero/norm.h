// The ranks' scalars of a step: loss, gradient norm, and whether anyone wants to stop.
//
// Each rank squares only the gradients it owns, so nothing is counted twice; the ranks' doubles are gathered and summed in
// rank order, so that every rank, in every stage, gets the same bits. 24 bytes a rank and step.
#ifndef ZEROFLEET_WORKER_ZERO_NORM_H_
#define ZEROFLEET_WORKER_ZERO_NORM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/device/ops.h"
#include "worker/zero/layout.h"

namespace zerofleet {

struct StepScalars {
  double loss_sum = 0;       // of this rank, or of all
  double squared_norm = 0;   // of the gradients this rank owns, or of all
  uint64_t flags = 0;        // of this rank, or all ranks' or-ed together
};

// Sums of squares of the owned shards in `gradients` (resting, reduced); `sum` is one double of device memory.
absl::StatusOr<double> OwnedSquaredNorm(const ZeroLayout& layout, Tensor gradients, Ops& ops, Stream& stream,
                                        Device& device, double* sum);

absl::StatusOr<StepScalars> SumOverRanks(const StepScalars& mine, Communicator& communicator);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_ZERO_NORM_H_
