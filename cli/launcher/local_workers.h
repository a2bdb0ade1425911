// The workers of one node as children of this process (`zerofleet worker --local N`): started, started again when they
// die, stopped together, never left behind.
//
// The coordinator is elsewhere, and decides what a lost rank means; here a process is only put in the place of one that
// ended. The local launcher of `train` (local_fleet.h), which has the coordinator as a child, follows its events
// instead.
#ifndef ZEROFLEET_CLI_LAUNCHER_LOCAL_WORKERS_H_
#define ZEROFLEET_CLI_LAUNCHER_LOCAL_WORKERS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "cli/launcher/child_process.h"
#include "cli/launcher/inherited_file.h"
#include "cli/launcher/stop_signals.h"

namespace zerofleet::cli {

struct LocalWorkersOptions {
  int workers = 1;
  int max_restarts = 3;  // of each
  // The command line of worker `number`, 0 to workers - 1. Its stderr is this process's.
  std::function<std::vector<std::string>(int number)> arguments;
  ProcessCommand command = {};
  const InheritedFile* file = nullptr;  // which every child inherits
  // Whether the run's coordinator can be reached and has not ended the run; takes a second or two at most.
  std::function<bool()> run_goes_on;
  std::function<void(const std::string& line)> note;  // for people
  const Clock* clock = &Clock::Real();
};

// What becomes of a worker that has ended: by `signal`, or if that is 0 with `exit_code`.
enum class WorkerEnd {
  kDone,        // 0: the run has ended. Also after a stop, whatever ended it
  kStartAgain,  // it was killed: nobody else was told
  kAsk,         // 1, 4: it was lost, or everything is over; start it again if the run goes on
  kFailed,      // 2, 3: another would find the same
};
WorkerEnd JudgeWorkerEnd(int signal, int exit_code, bool stopping);

// Runs the workers until all have ended for good. The first signal is passed on to each of them, and none is started
// again from then on; a second kills all at once. The exit code: 0, or that of the signal. Otherwise an error of the
// code of the first worker that failed, or was killed more often than it may be started again.
absl::StatusOr<int> RunLocalWorkers(const LocalWorkersOptions& options, const StopSignals& signals);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_LOCAL_WORKERS_H_
