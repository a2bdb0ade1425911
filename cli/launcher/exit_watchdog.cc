// See exit_watchdog.h.
#include "cli/launcher/exit_watchdog.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::cli {
namespace {

// The alarm handler's message and exit code: it may neither allocate nor lock.
char alarm_line[512];
size_t alarm_line_bytes = 0;
int alarm_exit_code = 1;

void EndNow(int) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, alarm_line, alarm_line_bytes);
  _exit(alarm_exit_code);
}

// Sets a kernel timer, for a process that cannot start another thread.
void ArmAlarm(const std::string& line, int exit_code, absl::Duration limit) {
  alarm_line_bytes = line.copy(alarm_line, sizeof(alarm_line));
  alarm_exit_code = exit_code;
  struct sigaction action = {};
  action.sa_handler = EndNow;
  sigaction(SIGALRM, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  itimerval timer = {};
  timer.it_value = absl::ToTimeval(std::max(limit, absl::Milliseconds(1)));
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void DisarmAlarm() {
  const itimerval none = {};
  setitimer(ITIMER_REAL, &none, nullptr);
}

}  // namespace

ExitWatchdog::~ExitWatchdog() {
  disarmed_.Notify();
  DisarmAlarm();
  absl::MutexLock lock(&mutex_);
  if (thread_.joinable()) thread_.join();
}

void ExitWatchdog::Arm(const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (thread_.joinable()) return;
  const std::string line = absl::StrCat("zerofleet: ", reason.message(), "; still not ended after ",
                                        absl::FormatDuration(limit_), ", ending now\n");
  const int exit_code = ExitCode(reason);
  try {
    thread_ = std::thread([this, line, exit_code] {
      if (disarmed_.WaitForNotificationWithTimeout(limit_)) return;
      // Nothing here may wait for whatever hangs: no log, no destructors.
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
      _exit(exit_code);
    });
  } catch (const std::system_error&) {
    ArmAlarm(line, exit_code, limit_);
  }
}

}  // namespace zerofleet::cli
