// See exit_watchdog.h.
#include "cli/exit_watchdog.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet {

ExitWatchdog::~ExitWatchdog() {
  disarmed_.Notify();
  absl::MutexLock lock(&mutex_);
  if (thread_.joinable()) thread_.join();
}

void ExitWatchdog::Arm(const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (thread_.joinable()) return;
  thread_ = std::thread([this, reason] {
    if (disarmed_.WaitForNotificationWithTimeout(limit_)) return;
    // Nothing here may wait for what hangs: no log, no destructors.
    const std::string line =
        absl::StrCat("zerofleet: ", std::string(reason.message()), "; not out after ", absl::FormatDuration(limit_),
                     ", ending as it is\n");
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    _exit(ExitCode(reason));
  });
}

}  // namespace zerofleet
