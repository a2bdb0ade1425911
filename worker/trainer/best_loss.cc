// Comparisons; see best_loss.h.
#include "worker/trainer/best_loss.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace zerofleet::trainer {
namespace {

constexpr char kAllSets[] = "all";

}  // namespace

void BestLoss::Evaluated(const v1::EvaluateEvent& event) {
  if (config_.best().empty()) return;
  double loss = config_.best() == kAllSets ? event.loss() : NAN;
  for (const v1::SetLoss& set : event.sets()) {
    if (set.name() == config_.best()) loss = set.loss();
  }
  evaluated_step_ = event.step();
  evaluated_loss_ = loss;
  const bool first = state_.step() == 0;
  if (std::isfinite(loss) && (first || loss < state_.loss())) {
    state_.set_loss(loss);
    state_.set_step(event.step());
    state_.set_stale_evaluations(0);
  } else {
    state_.set_stale_evaluations(state_.stale_evaluations() + 1);
  }
}

void BestLoss::Saved(int64_t step) {
  if (step != evaluated_step_ || !std::isfinite(evaluated_loss_)) return;
  if (state_.saved_step() > 0 && evaluated_loss_ >= state_.saved_loss()) return;
  noted_step_ = step;
  saved_step_before_ = state_.saved_step();
  saved_loss_before_ = state_.saved_loss();
  state_.set_saved_step(step);
  state_.set_saved_loss(evaluated_loss_);
}

void BestLoss::SaveFailed(int64_t step) {
  if (step != noted_step_) return;
  noted_step_ = -1;
  state_.set_saved_step(saved_step_before_);
  state_.set_saved_loss(saved_loss_before_);
}

std::string BestLoss::Reason() const {
  return absl::StrCat("stopping: ", state_.stale_evaluations(), " evaluations in a row found no lower loss of ",
                      config_.best() == kAllSets ? "the validation data" : config_.best(), " than ", state_.loss(),
                      " at step ", state_.step());
}

}  // namespace zerofleet::trainer
