// SIGINT, SIGTERM and SIGHUP as values to poll instead of interruptions.
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

// Gives SIGHUP back the effect that it had when this process was started, also on one that has arrived meanwhile: a
// library took the signal before main. To be called first of all in main.
void ReleaseHangup();

// Blocks the three signals in the calling thread and in threads that it starts later. To be created before any thread.
class StopSignals {
 public:
  StopSignals();

  // Waits up to `seconds` (0: not at all) for one of the three signals or the end of a child (SIGCHLD). Returns the
  // signal, 0 if there was none.
  int Wait(double seconds) const;

  // To be called when a run has ended: discards the signals received so far, and lets the next one end the process at
  // once with 130 or 143, even if it hangs.
  void EndAtOnce() const;

  // The first of the three signals so far, 0 if there was none. Once it has returned one, another SIGINT or SIGTERM has
  // its default effect; another SIGHUP, which a closing terminal may well send, does nothing. May be called from any
  // thread.
  int First();

  // Returns `status`; a Cancelled one gets the exit code of the first signal.
  absl::Status Stopped(const absl::Status& status);

  // The signals that stop this process: SIGHUP among them unless it is ignored.
  sigset_t Stopping() const;

 private:
  const bool hangup_ignored_;  // whether this process was started with SIGHUP ignored
  std::atomic<int> first_ = 0;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_STOP_SIGNALS_H_
