// What goes around a step and is none of section 5: a guess of its outcome (speculation.h), and looking whether its
// ranks have the numbers that they should have (integrity.h). Both end before anything of the step counts.
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
  // Runs the first micro-batch of the rank with this number in the group: each of its gradients comes to Delivers, its
  // loss to where the constructor was told.
  using Pass = std::function<absl::Status(int number)>;

  // `loss` is device memory.
  StepGuard(const EngineParts& parts, Updater& updater, const double* loss);

  // A step begins, whose control is `control`, device memory that the stream has written, with nothing in the memory of
  // gradients: another rank's micro-batch, if it is to be replayed, is run here.
  absl::Status Before(const StepChecks& checks, const device::StepControl* control, const device::StepRule& rule,
                      Pass pass);
  // This rank's own first micro-batch, with `run`.
  absl::Status RunFirst(const std::function<absl::Status()>& run);
  // All passes are done, and `resting` are the parameters that they have used.
  absl::Status Observe(int64_t step, device::Tensor resting);
  // Every gradient is reduced. Aborted on every rank, with the verdict (DisagreementOf), if ranks disagree.
  absl::Status Verdict(int64_t step);

  // A gradient is there, or a part of it, in device memory that `values` says on request. Whether the reduction is to
  // have it: what is replayed is only looked at.
  absl::StatusOr<bool> Delivers(int64_t elements, const std::function<absl::StatusOr<const float*>()>& values);

 private:
  // A pass, and the digest of its gradients and loss.
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
  PassDigest* digest_ = nullptr;  // of the pass in progress; null: none is made
  bool replaying_ = false;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STEP_GUARD_H_
