// Waits in the foreground for a child; signals that stop this process also stop the child.
#ifndef ZEROFLEET_CLI_LAUNCHER_AWAIT_CHILD_H_
#define ZEROFLEET_CLI_LAUNCHER_AWAIT_CHILD_H_

#include "cli/launcher/child_process.h"
#include "cli/launcher/stop_signals.h"

namespace zerofleet::cli {

struct ChildEnd {
  int exit_code = 0;    // 128 plus the signal if one killed it
  int stop_signal = 0;  // the first stop signal received meanwhile, 0 if none
};

// Waits until `child` has ended. Each signal that stops this process is passed on to it: it has a process group of its
// own, so a terminal's Ctrl-C does not reach it by itself.
ChildEnd AwaitChild(ChildProcess& child, const StopSignals& signals);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_AWAIT_CHILD_H_
