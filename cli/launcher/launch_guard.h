// What may go wrong before the launcher's loop runs: too few threads or open files allowed, a start that never ends, a
// signal meanwhile.
#ifndef ZEROFLEET_CLI_LAUNCHER_LAUNCH_GUARD_H_
#define ZEROFLEET_CLI_LAUNCHER_LAUNCH_GUARD_H_

#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "cli/launcher/stop_signals.h"

namespace zerofleet::cli {

// Starts that many threads at once and ends them. ResourceExhausted if the limit on processes or memory does not allow
// it: libraries that cannot start their threads wait forever.
absl::Status CheckRoomForThreads(int threads);

// Lets this process and its children open that many files at once. ResourceExhausted if the limit on them cannot be
// raised so far.
absl::Status MakeRoomForFiles(int files);

// Both, for the launcher, the coordinator and as many workers; and ResourceExhausted if a process may have fewer
// addresses than any takes, since libraries die of that each in its own way.
absl::Status MakeRoomForFleet(int workers);

// Lets this process open as many files as its hard limit allows, up to 65,536: each client of a server takes one, and
// the soft limit is 1,024 under many runtimes. What was raised is left to children.
void MakeRoomForClients();

// For as long as it lives, the stop signals, blocked in all other threads, end this process at once with 130 or 143,
// and so does the time limit, with 4. Children of the launcher die with it. Throws std::system_error if its thread
// cannot be started.
class LaunchGuard {
 public:
  LaunchGuard(absl::Duration limit, const StopSignals& signals);
  ~LaunchGuard();
  LaunchGuard(const LaunchGuard&) = delete;
  LaunchGuard& operator=(const LaunchGuard&) = delete;

 private:
  void Watch();

  const absl::Duration limit_;
  const StopSignals& signals_;
  absl::Notification done_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_LAUNCH_GUARD_H_
