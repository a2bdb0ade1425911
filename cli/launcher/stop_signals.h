// SIGINT, SIGTERM and SIGHUP as values to poll, instead of interruptions.
//
// SIGHUP, the end of a terminal's session, stops a run as SIGTERM does. Under nohup it stays ignored.
#ifndef ZEROFLEET_CLI_LAUNCHER_STOP_SIGNALS_H_
#define ZEROFLEET_CLI_LAUNCHER_STOP_SIGNALS_H_

#include <signal.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"

namespace zerofleet::cli {

// "SIGKILL" for 9; "signal 40" for one without a name.
std::string SignalName(int signal);

// The exit code of a process that `signal` stopped: 130 for SIGINT, else 143.
int StopExitCode(int signal);

// Blocks the three in the calling thread and those started after it; made first thing, before any thread.
class StopSignals {
 public:
  StopSignals();

  // Waits up to `seconds` (0: not at all) for one of the three or the end of a child (SIGCHLD). The signal, 0 if none.
  int Wait(double seconds) const;

  // For when a run has ended: signals received so far are discarded, and the next one ends the process at once with 130
  // or 143, even if it hangs.
  void EndAtOnce() const;

  // The first of the three so far, 0 if none. From then on a second SIGINT or SIGTERM has its default effect; a second
  // SIGHUP, which a closing terminal may well send, does nothing. Any thread.
  int First();

  // `status`; if it is Cancelled, with the exit code of the first signal.
  absl::Status Stopped(const absl::Status& status);

  // The signals that stop this process: SIGHUP among them unless it is ignored.
  sigset_t Stopping() const;

 private:
  const bool hangup_ignored_;  // by whoever started this process
  std::atomic<int> first_ = 0;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_STOP_SIGNALS_H_
