// A step that must not count because its numbers say that training has diverged: the verdict as a status.
//
// Every rank has the same loss and gradient norm for a step, so all reach the same verdict. It travels with the status
// that ends the step, and from there to the coordinator (Failure.divergence) which takes the run back (on_divergence).
#ifndef ZEROFLEET_WORKER_ZERO_DIVERGENCE_H_
#define ZEROFLEET_WORKER_ZERO_DIVERGENCE_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_payload.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::zero {

// FailedPrecondition, with the cause and what may help.
inline absl::Status DivergenceError(const v1::Divergence& divergence) {
  return WithPayload(
      absl::FailedPreconditionError(absl::StrCat(
          "step ", divergence.step(), ": ", divergence.cause(),
          ": training has diverged; a lower optimizer.learning_rate or longer schedule.warmup_steps may help")),
      divergence);
}
// The verdict in a status of DivergenceError; none for any other status.
inline std::optional<v1::Divergence> DivergenceOf(const absl::Status& status) {
  return PayloadOf<v1::Divergence>(status);
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_DIVERGENCE_H_
