// What goes around a step and is not in section 5: a guess of its outcome (speculation.h), and the comparison of the
// ranks' numbers (integrity.h). Both end before anything of the step counts.
#ifndef ZEROFLEET_WORKER_ZERO_STEP_GUARD_H_
#define ZEROFLEET_WORKER_ZERO_STEP_GUARD_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/step_control.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/integrity.h"
#include "worker/zero/updater.h"

namespace zerofleet::zero {

class StepGuard {
 public:
  // Runs the first micro-batch of the rank with this number in the group: each of its gradients goes to Delivers, its
  // loss to the constructor's `loss`.
  using Pass = std::function<absl::Status(int number)>;

  // `loss` and `room`, of StepSums::room, are device memory.
  StepGuard(const EngineParts& parts, Updater& updater, const double* loss, void* room);

  // Called when a step begins. `control`, device memory that the stream has written, is the step's; the gradients'
  // memory is free: if another rank's micro-batch is to be replayed, it is run here.
  absl::Status Before(const StepChecks& checks, const device::StepControl* control, const device::StepRule& rule,
                      Pass pass);
  // Runs this rank's own first micro-batch with `run`.
  absl::Status RunFirst(const std::function<absl::Status()>& run);
  // Called when all passes are done; `resting` are the parameters that they have used.
  absl::Status Observe(int64_t step, device::Tensor resting);
  // Called when every gradient is reduced. Returns Aborted on every rank, with the verdict (DisagreementOf), if ranks
  // disagree.
  absl::Status Verdict(int64_t step);

  // Called when a gradient, or a part of it, is in device memory. Returns whether it is to be reduced: a replay's is
  // only digested.
  absl::StatusOr<bool> Delivers(int64_t elements, device::Tensor values);

 private:
  // Runs a pass; returns the digest of its gradients and loss.
  absl::StatusOr<DigestBits> Digest(const std::function<absl::Status()>& run);
  absl::StatusOr<DigestBits> Replay(int number);

  const EngineParts& parts_;
  Updater& updater_;
  const double* const loss_;
  IntegrityChecker integrity_;
  // These belong to the step in progress.
  StepChecks checks_;
  Pass pass_;
  DigestBits own_, replayed_;
  PassDigest* digest_ = nullptr;  // digest of the pass in progress; null: none is made
  bool replaying_ = false;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STEP_GUARD_H_
