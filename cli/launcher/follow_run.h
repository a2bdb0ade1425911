// Following a local run to its end: events to report, progress and record; signals to the fleet; ends to an exit code.
#ifndef ZEROFLEET_CLI_LAUNCHER_FOLLOW_RUN_H_
#define ZEROFLEET_CLI_LAUNCHER_FOLLOW_RUN_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/stop_signals.h"
#include "cli/report/progress.h"
#include "cli/report/report.h"
#include "cli/report/run_record.h"
#include "cli/report/tensorboard.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct FollowOptions {
  LocalFleet& fleet;
  const StopSignals& signals;
  Progress& progress;
  ReportWriter* report;            // null: none is written
  TensorBoardWriter* tensorboard;  // as well
  const Clock& clock;
  const v1::RestartConfig& restart;  // a coordinator that a signal ends is started again, max_per_rank times
  std::function<void(int64_t step)> step_done = [](int64_t) {};
};

// Returns when every child has ended, killing those that do not in time. The value is the exit code: 0, or 130 or 143
// when a signal stopped the run with its checkpoint saved. The first signal asks the fleet to stop; a second kills it.
absl::StatusOr<int> FollowRun(const FollowOptions& options, RunRecord& record);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_FOLLOW_RUN_H_
