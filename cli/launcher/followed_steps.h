// Steps of a real fleet on this machine, followed one by one and ended without a save.
#ifndef ZEROFLEET_CLI_LAUNCHER_FOLLOWED_STEPS_H_
#define ZEROFLEET_CLI_LAUNCHER_FOLLOWED_STEPS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "cli/launcher/stop_signals.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::cli {

struct StepsToFollow {
  v1::Config config;  // complete; trained in its checkpoint.dir
  std::string resume = "none";
  int metrics_port = 0;
};

// Runs the fleet and calls `goes_on` with every event, in order, until it returns false; then calls `at_the_end`, if
// set, and ends the fleet. Workers are not replaced: losing one is an error that names it. Cancelled by a signal;
// ResourceExhausted if limits allow too few threads or files.
absl::Status FollowSteps(const StepsToFollow& steps, StopSignals& signals,
                         const std::function<bool(const v1::Event&)>& goes_on,
                         const std::function<absl::Status()>& at_the_end = {});

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_FOLLOWED_STEPS_H_
