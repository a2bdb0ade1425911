// The workers of one node as children of this process (`zerofleet worker --local N`): started, started again when they
// die, stopped together, never left behind.
//
// The coordinator runs elsewhere and decides what a lost rank means; here, a process that has ended is only replaced by
// another. The local launcher of `train` (local_fleet.h), which has the coordinator as a child, follows its events
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
  int max_restarts = 3;  // of each worker
  // Returns the arguments of worker `number`, 0 to workers - 1. A worker shares this process's stderr.
  std::function<std::vector<std::string>(int number)> arguments;
  ProcessCommand command = {};
  const InheritedFile* file = nullptr;  // inherited by every child; null: none
  // Whether the run's coordinator can be reached and has not ended the run; takes a second or two at most.
  std::function<bool()> run_goes_on;
  std::function<void(const std::string& line)> note;  // receives lines for people
  const Clock* clock = &Clock::Real();
};

// What to do about a worker that has ended. The numbers are its exit codes.
enum class WorkerEnd {
  kDone,        // 0: the run has ended. Also every end after a stop signal
  kStartAgain,  // it was killed by a signal
  kAsk,         // 1, 4: it was lost, or the run is over; start it again if the run goes on
  kFailed,      // 2, 3: another worker would fail in the same way
};
WorkerEnd JudgeWorkerEnd(int signal, int exit_code, bool stopping);

// Runs the workers until all have ended for good. The first stop signal is passed on to each of them, and none is
// started again from then on; a second one kills all at once. Returns the exit code: 0, or that of the signal. If a
// worker failed, or ended more often than it may be started again, returns an error with the code of the first such
// worker.
absl::StatusOr<int> RunLocalWorkers(const LocalWorkersOptions& options, const StopSignals& signals);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_LOCAL_WORKERS_H_
