// Before, observe, verdict; see step_guard.h.
#include "worker/zero/step_guard.h"

#include <utility>

#include "base/status.h"
#include "worker/device/dtype.h"

namespace zerofleet::zero {

StepGuard::StepGuard(const EngineParts& parts, Updater& updater, const double* loss, void* room)
    : parts_(parts), updater_(updater), loss_(loss), integrity_(parts, room) {}

absl::Status StepGuard::Before(const StepChecks& checks, const device::StepControl* control,
                               const device::StepRule& rule, Pass pass) {
  checks_ = checks;
  pass_ = std::move(pass);
  // A step that compares the ranks may have to leave the state as it was, so it is not guessed.
  const bool compares = checks_.parameters || checks_.replay;
  if (parts_.layout.speculates() && !compares) updater_.Speculate(control, rule);
  checks_.replay = checks_.replay && integrity_.compares();
  if (!checks_.replay) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(replayed_, Replay(integrity_.Neighbour(kFirstReplay)));
  return absl::OkStatus();
}

absl::Status StepGuard::RunFirst(const std::function<absl::Status()>& run) {
  if (!checks_.replay) return run();
  ZF_ASSIGN_OR_RETURN(own_, Digest(run));
  return absl::OkStatus();
}

absl::Status StepGuard::Observe(int64_t step, device::Tensor resting) {
  return checks_.parameters ? integrity_.CheckParameters(step, resting) : absl::OkStatus();
}

absl::Status StepGuard::Verdict(int64_t step) {
  const absl::Status verdict =
      checks_.replay ? integrity_.CompareReplays(step, own_, replayed_, [this](int number) { return Replay(number); })
                     : absl::OkStatus();
  pass_ = nullptr;  // it borrows what only this step has
  checks_ = {};
  return verdict;
}

absl::StatusOr<bool> StepGuard::Delivers(int64_t elements, device::Tensor values) {
  if (digest_ == nullptr) return true;
  ZF_RETURN_IF_ERROR(digest_->Add(values.data, elements * device::DTypeBytes(values.dtype)));
  return !replaying_;
}

absl::StatusOr<DigestBits> StepGuard::Digest(const std::function<absl::Status()>& run) {
  PassDigest digest(parts_);
  digest_ = &digest;
  const absl::Status status = run();
  digest_ = nullptr;
  ZF_RETURN_IF_ERROR(status);
  ZF_RETURN_IF_ERROR(digest.Add(loss_, sizeof *loss_));
  return digest.Bits();
}

absl::StatusOr<DigestBits> StepGuard::Replay(int number) {
  replaying_ = true;
  absl::StatusOr<DigestBits> digest = Digest([&] { return pass_(number); });
  replaying_ = false;
  return digest;
}

}  // namespace zerofleet::zero
