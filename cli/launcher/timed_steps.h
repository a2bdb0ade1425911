// The steps of a real fleet on this machine, timed: a run that is followed for some steps and ended without a save.
#ifndef ZEROFLEET_CLI_LAUNCHER_TIMED_STEPS_H_
#define ZEROFLEET_CLI_LAUNCHER_TIMED_STEPS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/launcher/stop_signals.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::cli {

// The first `warm_up` steps are not timed; then steps are timed until there are at least `steps` of them and they took
// at least `seconds` in all.
struct StepsToTime {
  int64_t warm_up = 1, steps = 5;
  double seconds = 0;
  std::function<absl::Status()> warmed_up = {};  // called, if set, when the last warm-up step has been seen
};

struct TimedSteps {
  v1::StartEvent start;
  std::vector<v1::StepEvent> steps;  // sorted, the fastest first
  const v1::StepEvent& median() const { return steps[steps.size() / 2]; }
};

// Trains `config`, which must have enough steps, in its checkpoint.dir. `while_training`, if set, is called with the
// coordinator's metrics port before the fleet is ended; without it there are no metrics. Losing a worker is an error
// that names it. Cancelled by a signal.
absl::StatusOr<TimedSteps> TimeSteps(const v1::Config& config, const StepsToTime& wanted, StopSignals& signals,
                                     const std::function<absl::Status(int metrics_port)>& while_training = {});

// Random tokens below `vocab` in the format tokens_u32, from a fixed seed.
std::string RandomTokens(int64_t count, int64_t vocab);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_TIMED_STEPS_H_
