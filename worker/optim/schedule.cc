// Warm-up and decay; see schedule.h.
#include "worker/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace zerofleet::optim {
namespace {

// The share of the way from peak to floor that is left.
double Cosine(double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); }
double Share(const std::string& shape, double progress) {
  if (shape == "cosine") return Cosine(progress);
  return 1.0 - (shape == "sqrt" ? std::sqrt(progress) : progress);
}

}  // namespace

double LearningRate(const v1::OptimizerConfig& optimizer, const v1::ScheduleConfig& schedule, int64_t steps,
                    int64_t step) {
  double peak = optimizer.learning_rate(), low = schedule.min_learning_rate();
  int64_t warmup = schedule.warmup_steps();
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (schedule.decay() == "constant") return peak;
  if (schedule.decay() == "restarts") {
    const auto cycle = static_cast<double>(std::max<int64_t>(schedule.cycle_steps(), 1));
    return low + (peak - low) * Cosine(std::fmod(static_cast<double>(step - warmup), cycle) / cycle);
  }
  if (schedule.decay() == "wsd") {
    const int64_t stable = steps - schedule.decay_steps();
    if (step <= stable) return peak;
    const double done = std::min(1.0, static_cast<double>(step - stable) / static_cast<double>(schedule.decay_steps()));
    return low + (peak - low) * Share(schedule.decay_shape(), done);
  }
  double span = static_cast<double>(std::max<int64_t>(steps - warmup, 1));
  double progress = std::min(1.0, static_cast<double>(step - warmup) / span);
  return low + (peak - low) * Share(schedule.decay(), progress);
}

}  // namespace zerofleet::optim
