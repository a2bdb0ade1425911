// A ring of the newest steps' phases; see pace.h.
#include "worker/trainer/pace.h"

#include <algorithm>

namespace zerofleet::trainer {

void Pace::Add(const zero::PhaseSeconds& step) {
  if (steps_.size() < kSteps) return steps_.push_back(step);
  steps_[next_] = step;
  next_ = (next_ + 1) % kSteps;
}

v1::Pace Pace::Median() const {
  v1::Pace pace;
  pace.set_steps(static_cast<int>(steps_.size()));
  if (steps_.empty()) return pace;
  const auto median = [this](zero::StepPhase phase) {
    std::vector<double> seconds;
    for (const zero::PhaseSeconds& step : steps_) seconds.push_back(step[phase]);
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  };
  pace.set_data(median(zero::StepPhase::kData));
  pace.set_forward(median(zero::StepPhase::kForward));
  pace.set_backward(median(zero::StepPhase::kBackward));
  pace.set_optimizer(median(zero::StepPhase::kOptimizer));
  return pace;
}

}  // namespace zerofleet::trainer
