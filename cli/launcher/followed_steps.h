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

// Calls `goes_on` with every event of the run, in order, until it returns false; `at_the_end`, if any, is then called
// before the fleet is ended. A lost worker, for which nobody starts another, is an error that names it. Cancelled by a
// signal, ResourceExhausted where too few threads or files are allowed.
absl::Status FollowSteps(const StepsToFollow& steps, StopSignals& signals,
                         const std::function<bool(const v1::Event&)>& goes_on,
                         const std::function<absl::Status()>& at_the_end = {});

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_FOLLOWED_STEPS_H_
