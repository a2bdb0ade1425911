// Warm-up and decay; see schedule.h.
#include "worker/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zerofleet::optim {

double LearningRate(const v1::OptimizerConfig& optimizer, const v1::ScheduleConfig& schedule, int64_t steps,
                    int64_t step) {
  double peak = optimizer.learning_rate(), low = schedule.min_learning_rate();
  int64_t warmup = schedule.warmup_steps();
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (schedule.decay() == "constant") return peak;
  double span = static_cast<double>(std::max<int64_t>(steps - warmup, 1));
  double progress = std::min(1.0, static_cast<double>(step - warmup) / span);
  double share = schedule.decay() == "cosine" ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) : 1.0 - progress;
  return low + (peak - low) * share;
}

}  // namespace zerofleet::optim
