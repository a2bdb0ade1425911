// Ends a process that cannot end by itself.
//
// When a run is lost, a worker aborts its collectives, frees its memory and leaves. On a GPU each of these waits for
// the device, and a device whose kernels hang keeps the process alive forever, and with it the pod or the shell that
// waits for it. The launcher needs a watchdog too: in a process that may start no more threads, or has no memory left,
// libraries can wait forever for threads of theirs that never started.
#ifndef ZEROFLEET_CLI_LAUNCHER_EXIT_WATCHDOG_H_
#define ZEROFLEET_CLI_LAUNCHER_EXIT_WATCHDOG_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace zerofleet::cli {

class ExitWatchdog {
 public:
  explicit ExitWatchdog(absl::Duration limit = absl::Seconds(60)) : limit_(limit) {}
  ~ExitWatchdog();  // disarms
  ExitWatchdog(const ExitWatchdog&) = delete;
  ExitWatchdog& operator=(const ExitWatchdog&) = delete;

  // Unless this object is destroyed within the limit, the process prints `reason` and ends with its exit code. Only the
  // first call counts. May be called from any thread. If no thread can be started for the watch, a timer's signal ends
  // the process.
  void Arm(const absl::Status& reason);

 private:
  const absl::Duration limit_;
  absl::Notification disarmed_;
  absl::Mutex mutex_;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_EXIT_WATCHDOG_H_
