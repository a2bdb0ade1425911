// SIGINT and SIGTERM as values to ask for, instead of interruptions.
#ifndef ZEROFLEET_CLI_STOP_SIGNALS_H_
#define ZEROFLEET_CLI_STOP_SIGNALS_H_

#include <atomic>
#include <string>

namespace zerofleet {

// "SIGKILL" for 9; "signal 40" for one without a name.
std::string SignalName(int signal);

// Blocks SIGINT and SIGTERM in the calling thread and those started after it; made first thing, before any thread.
class StopSignals {
 public:
  StopSignals();

  // Waits up to `seconds` (0: not at all) for SIGINT, SIGTERM or the end of a child (SIGCHLD). The signal, 0 if none.
  int Wait(double seconds) const;

  // The first SIGINT or SIGTERM so far, 0 if none. From then on a second one ends the process as it would without us.
  // Any thread.
  int First();

 private:
  std::atomic<int> first_ = 0;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_STOP_SIGNALS_H_
