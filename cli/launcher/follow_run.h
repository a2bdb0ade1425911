// Follows a local run to its end: passes events to the report, the progress and the record, passes signals to the
// fleet, and turns the ends of processes into an exit code.
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
  TensorBoardWriter* tensorboard;  // null: none is written
  const Clock& clock;
  const v1::RestartConfig& restart;  // a coordinator that was killed is restarted up to max_per_rank times
  std::function<void(int64_t step)> step_done = [](int64_t) {};
};

// Returns when every child has ended; kills those that do not end in time. The value is the exit code: 0, or 130 or 143
// when a signal stopped the run with its checkpoint saved. The first signal asks the fleet to stop; a second kills it.
absl::StatusOr<int> FollowRun(const FollowOptions& options, RunRecord& record);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_FOLLOW_RUN_H_
