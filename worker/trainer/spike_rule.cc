// A median of few numbers; see spike_rule.h.
#include "worker/trainer/spike_rule.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace zerofleet::trainer {

SpikeRule::SpikeRule(const v1::DivergenceConfig& config, const std::vector<double>& losses) : config_(config) {
  for (const double loss : losses) Add(loss);
}

void SpikeRule::Add(double loss) {
  if (loss == 0) return;  // no token of the step counts
  window_.push_back(loss);
  if (static_cast<int64_t>(window_.size()) > config_.window_steps()) window_.pop_front();
}

std::string SpikeRule::Judge(double loss) {
  if (config_.spike_factor() == 0) return "";
  if (static_cast<int64_t>(window_.size()) == config_.window_steps()) {
    std::vector<double> sorted(window_.begin(), window_.end());
    std::sort(sorted.begin(), sorted.end());
    const double median = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
    if (loss > config_.spike_factor() * median) {
      return absl::StrFormat(
          "loss %g, more than %g times the median of the last %d steps, %g (divergence.spike_factor)", loss,
          config_.spike_factor(), config_.window_steps(), median);
    }
  }
  Add(loss);
  return "";
}

}  // namespace zerofleet::trainer
