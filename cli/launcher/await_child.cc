// See await_child.h.
#include "cli/launcher/await_child.h"

#include <signal.h>

namespace zerofleet::cli {
namespace {

constexpr double kChildPollSeconds = 1;  // the end of a child cuts the wait short

}  // namespace

ChildEnd AwaitChild(ChildProcess& child, const StopSignals& signals) {
  ChildEnd end;
  while (!child.HasEnded()) {
    const int signal = signals.Wait(kChildPollSeconds);
    if (signal == 0 || signal == SIGCHLD) continue;
    if (end.stop_signal == 0) end.stop_signal = signal;
    child.Stop(signal);
  }
  end.exit_code = child.signal() != 0 ? 128 + child.signal() : child.exit_code();
  return end;
}

}  // namespace zerofleet::cli
