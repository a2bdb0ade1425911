// Blocked signals and sigtimedwait; see stop_signals.h.
#include "cli/launcher/stop_signals.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>

#include "base/status.h"

namespace zerofleet::cli {
namespace {

bool hangup_ignored_at_start = false, hangup_held = false;

// A shared library may not have this section, and so neither may the Python package's, which asks Python instead
// (python/src/core.cc).
#if !defined(__PIC__) || defined(__PIE__)
// Notes the disposition of SIGHUP that this process was started with, and blocks the signal until ReleaseHangup. The
// constructor of UCX's library takes the signal for its debugger, so this must run before the constructors of
// libraries. It calls the kernel directly, since sanitizers are not initialised at that time either.
__attribute__((no_sanitize("address", "thread", "undefined"))) void HoldHangup(int, char**, char**) {
  uintptr_t action[8] = {};  // the kernel's struct; the handler comes first
  if (syscall(SYS_rt_sigaction, SIGHUP, nullptr, action, 8) != 0) return;
  hangup_ignored_at_start = action[0] == reinterpret_cast<uintptr_t>(SIG_IGN);
  const uint64_t hangup = uint64_t{1} << (SIGHUP - 1);
  uint64_t before = 0;
  hangup_held = syscall(SYS_rt_sigprocmask, SIG_BLOCK, &hangup, &before, 8) == 0 && (before & hangup) == 0;
}
using Early = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) const Early kHoldHangup = &HoldHangup;
#endif

bool HangupIsIgnored() {
  if (hangup_ignored_at_start) signal(SIGHUP, SIG_IGN);
  struct sigaction action = {};
  return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

void ReleaseHangup() {
  if (!hangup_held) return;
  hangup_held = false;
  signal(SIGHUP, hangup_ignored_at_start ? SIG_IGN : SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int StopExitCode(int signal) { return ExitCode(StoppedBySignal(signal, "")); }

// A blocked signal is kept even if it is ignored, so an ignored one must not be waited for.
sigset_t StopSignals::Stopping() const {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (!hangup_ignored_) sigaddset(&set, SIGHUP);
  return set;
}

StopSignals::StopSignals() : hangup_ignored_(HangupIsIgnored()) {
  sigset_t set = Stopping();
  sigaddset(&set, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int StopSignals::Wait(double seconds) const {
  sigset_t set = Stopping();
  sigaddset(&set, SIGCHLD);
  const double whole = std::floor(seconds);
  const timespec timeout = {static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
  const int signal = sigtimedwait(&set, nullptr, &timeout);
  return signal > 0 ? signal : 0;
}

void StopSignals::EndAtOnce() const {
  sigset_t set = Stopping();
  const timespec now = {0, 0};
  while (sigtimedwait(&set, nullptr, &now) > 0) {
  }
  for (const int each : {SIGINT, SIGTERM}) signal(each, [](int received) { _exit(128 + received); });
  sigdelset(&set, SIGHUP);  // further ones may arrive, and are ignored from now on
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int StopSignals::First() {
  if (first_ != 0) return first_;
  sigset_t set = Stopping();
  const timespec now = {0, 0};
  const int signal = sigtimedwait(&set, nullptr, &now);
  if (signal <= 0) return 0;
  int none = 0;
  first_.compare_exchange_strong(none, signal);
  sigdelset(&set, SIGHUP);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return first_;
}

absl::Status StopSignals::Stopped(const absl::Status& status) {
  if (!absl::IsCancelled(status) || First() == 0) return status;
  return StoppedBySignal(First(), std::string(status.message()));
}

}  // namespace zerofleet::cli
