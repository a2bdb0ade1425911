// See timed_steps.h.
#include "cli/launcher/timed_steps.h"

#include <algorithm>
#include <random>

#include "base/status.h"
#include "cli/launcher/followed_steps.h"
#include "cli/launcher/scrape.h"

namespace zerofleet::cli {

absl::StatusOr<TimedSteps> TimeSteps(const v1::Config& config, const StepsToTime& wanted, StopSignals& signals,
                                     const std::function<absl::Status(int metrics_port)>& while_training) {
  StepsToFollow followed{.config = config};
  followed.config.clear_init_from();  // the time of a step does not depend on the weights
  if (while_training) {
    ZF_ASSIGN_OR_RETURN(followed.metrics_port, FreePorts(1 + config.parallel().workers()));
  }
  TimedSteps timed;
  double seconds = 0;
  absl::Status warmed_up;
  const auto goes_on = [&](const v1::Event& event) {
    if (event.has_start()) timed.start = event.start();
    if (!event.has_step()) return true;
    if (event.step().step() == wanted.warm_up && wanted.warmed_up) warmed_up = wanted.warmed_up();
    if (event.step().step() <= wanted.warm_up) return warmed_up.ok();
    timed.steps.push_back(event.step());
    seconds += event.step().seconds();
    return static_cast<int64_t>(timed.steps.size()) < wanted.steps || seconds < wanted.seconds;
  };
  const std::function<absl::Status()> at_the_end = [&] {
    return while_training && warmed_up.ok() ? while_training(followed.metrics_port) : absl::OkStatus();
  };
  ZF_RETURN_IF_ERROR(FollowSteps(followed, signals, goes_on, at_the_end));
  ZF_RETURN_IF_ERROR(warmed_up);
  std::sort(timed.steps.begin(), timed.steps.end(),
            [](const auto& a, const auto& b) { return a.seconds() < b.seconds(); });
  return timed;
}

std::string RandomTokens(int64_t count, int64_t vocab) {
  std::mt19937_64 random(1);
  std::string data;
  for (int64_t i = 0; i < count; ++i) {
    const auto token = static_cast<uint32_t>(random() % static_cast<uint64_t>(vocab));
    for (int byte = 0; byte < 4; ++byte) data.push_back(static_cast<char>(token >> 8 * byte));
  }
  return data;
}

}  // namespace zerofleet::cli
