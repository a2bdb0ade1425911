// Blocked signals and sigtimedwait; see stop_signals.h.
#include "cli/stop_signals.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include <cmath>

namespace zerofleet {
namespace {

sigset_t StopSet(bool with_child) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (with_child) sigaddset(&set, SIGCHLD);
  return set;
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

StopSignals::StopSignals() {
  const sigset_t set = StopSet(/*with_child=*/true);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int StopSignals::Wait(double seconds) const {
  const sigset_t set = StopSet(/*with_child=*/true);
  const double whole = std::floor(seconds);
  const timespec timeout = {static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
  const int signal = sigtimedwait(&set, nullptr, &timeout);
  return signal > 0 ? signal : 0;
}

int StopSignals::First() {
  if (first_ != 0) return first_;
  const sigset_t set = StopSet(/*with_child=*/false);
  const timespec now = {0, 0};
  const int signal = sigtimedwait(&set, nullptr, &now);
  if (signal <= 0) return 0;
  int none = 0;
  first_.compare_exchange_strong(none, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return first_;
}

}  // namespace zerofleet
