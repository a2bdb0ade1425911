// The numbers that every step ends with, from all ranks: loss, gradient norm and flags.
//
// Each rank squares only the gradients it owns, and of a tensor that all parts of a model have only the first part's,
// so nothing is counted twice. The ranks' sums are gathered, and every rank adds all of them alike: in rank order, in
// double (StepScalars, 32 bytes per rank); or, where the number of ranks must change no bit, without rounding
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

// The unit of those scalars in a schedule.
inline constexpr const char* kScalarsUnit = "scalars";

class StepSums {
 public:
  // `tensor` is null where the model is whole; both outlive this.
  StepSums(const EngineParts& parts, CommunicatorTensorGroup* tensor);

  // Device memory for the loss of each micro-batch.
  double* losses() const { return losses_; }
  // And for what each of a foreign model's is divided by.
  double* weights() const { return weights_; }
  // Squares this rank's shard of the unit's gradient, reduced: one sum for each range that counts
  // (ZeroLayout::Counted).
  void AddSquares(int unit, device::Tensor gradient);
  // Sums and gathers what the step has found, and decides it in `control`, device memory.
  absl::StatusOr<collective::Communicator::Pending> Decide(const StepBatch& batch, uint64_t flags,
                                                           const device::StepRule& rule, device::StepControl* control);

  // The sum over all ranks of what each has in host memory, and each rank's own, by rank of the view.
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
  // Every rank's from every rank's: first within the tensor group, then what it has within the data group.
  absl::StatusOr<collective::Communicator::Pending> Gather();
  template <typename Scalars>
  absl::StatusOr<std::vector<Scalars>> GatherFromHost(const Scalars& mine);

  const EngineParts& parts_;
  CommunicatorTensorGroup* const tensor_;
  const bool exact_;
  const int64_t scalars_bytes_;  // of one rank
  double* losses_;
  double* weights_;
  void* squares_;   // double or ExactSum: one for each counted range
  std::byte* all_;  // every rank's StepScalars or ExactScalars, by rank of the view
  void* mine_;      // of a model in parts, in their place among all
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STEP_SUMS_H_
