// A payload of a status; see divergence.h.
#include "worker/zero/divergence.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace zerofleet::zero {
namespace {

constexpr char kDivergencePayload[] = "zerofleet.v1.Divergence";

}  // namespace

absl::Status DivergenceError(const v1::Divergence& divergence) {
  absl::Status status = absl::FailedPreconditionError(absl::StrCat(
      "step ", divergence.step(), ": ", divergence.cause(),
      ": training has diverged; a lower optimizer.learning_rate or longer schedule.warmup_steps may help"));
  status.SetPayload(kDivergencePayload, absl::Cord(divergence.SerializeAsString()));
  return status;
}

std::optional<v1::Divergence> DivergenceOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kDivergencePayload);
  v1::Divergence divergence;
  if (!payload || !divergence.ParseFromString(std::string(*payload))) return std::nullopt;
  return divergence;
}

}  // namespace zerofleet::zero
