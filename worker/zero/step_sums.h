// The numbers that every step ends with, from all ranks: loss, gradient norm and flags.
//
// Each rank squares only the gradients it owns; a tensor that all parts of a model have is squared only in the first
// part. So nothing is counted twice. The ranks' sums are gathered, and every rank adds all of them alike: in rank
// order, in double (StepScalars, 32 bytes per rank); or, where the number of ranks must change no bit, without rounding
// (ExactScalars, 512 bytes per rank). So every rank, in every stage, gets the same bits.
#ifndef ZEROFLEET_WORKER_ZERO_STEP_SUMS_H_
#define ZEROFLEET_WORKER_ZERO_STEP_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/device/step_control.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/tensor_group.h"

namespace zerofleet::zero {

// The name that these scalars have as a unit in a schedule.
inline constexpr const char* kScalarsUnit = "scalars";

class StepSums {
 public:
  // `tensor` is null where the model is whole; both outlive this.
  StepSums(const EngineParts& parts, CommunicatorTensorGroup* tensor);

  // Device memory for the loss of each micro-batch.
  double* losses() const { return losses_; }
  // Device memory for the divisor of each micro-batch's loss, which a foreign model's passes report.
  double* weights() const { return weights_; }
  // At least 16 bytes of device memory for each rank of the group, free in the stream's order outside the calls below.
  void* room() const { return all_; }
  // Squares this rank's shard of the unit's reduced gradient: one sum for each range that counts (ZeroLayout::Counted).
  void AddSquares(int unit, device::Tensor gradient);
  // Sums and gathers the step's numbers, and writes the decision to `control`, device memory.
  absl::StatusOr<collective::Communicator::Pending> Decide(const StepBatch& batch, uint64_t flags,
                                                           const device::StepRule& rule, device::StepControl* control);

  // The sum over all ranks of `mine`, in host memory; and every rank's `mine`, indexed by rank of the view.
  absl::StatusOr<double> SumLosses(std::span<const double> mine);
  absl::StatusOr<std::vector<double>> GatherFromRanks(double mine);

 private:
  // A loss is the same on all ranks of a tensor group, and counts once.
  bool counts_loss() const { return parts_.layout.part().index == 0; }
  int64_t all_ranks() const { return int64_t{parts_.communicator.size()} * parts_.layout.part().count; }
  template <typename Scalars>
  Scalars* Mine() const {
    return static_cast<Scalars*>(mine_);
  }
  // Gathers all ranks' scalars: first within the tensor group, then the tensor groups' within the data group.
  absl::StatusOr<collective::Communicator::Pending> Gather();
  template <typename Scalars>
  absl::StatusOr<std::vector<Scalars>> GatherFromHost(const Scalars& mine);

  const EngineParts& parts_;
  CommunicatorTensorGroup* const tensor_;
  const bool exact_;
  const int64_t scalars_bytes_;  // bytes of one rank's scalars
  double* losses_;
  double* weights_;
  void* squares_;   // double or ExactSum: one for each counted range
  std::byte* all_;  // every rank's StepScalars or ExactScalars, by rank of the view
  void* mine_;      // this rank's scalars; in their place in all_ where the model is in parts
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STEP_SUMS_H_
