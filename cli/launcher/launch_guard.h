// Guards the time before the launcher's loop runs: against limits that allow too few threads or open files, a start
// that never ends, and signals.
#ifndef ZEROFLEET_CLI_LAUNCHER_LAUNCH_GUARD_H_
#define ZEROFLEET_CLI_LAUNCHER_LAUNCH_GUARD_H_

#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "cli/launcher/stop_signals.h"

namespace zerofleet::cli {

// Starts `threads` threads at once and ends them. ResourceExhausted if the limit on processes or memory does not allow
// it: libraries that cannot start their threads would wait forever.
absl::Status CheckRoomForThreads(int threads);

// Lets this process and its children have `files` files open at once. ResourceExhausted if the limit cannot be raised
// that far.
absl::Status MakeRoomForFiles(int files);

// Applies both to a fleet of the launcher, the coordinator and `workers` workers. Also ResourceExhausted if the limit
// on address space is below what any of these processes takes, since each library fails in its own way then.
absl::Status MakeRoomForFleet(int workers);

// Lets this process open as many files as its hard limit allows, up to 65,536: each client of a server takes one, and
// the soft limit is 1,024 under many runtimes. Children inherit the raised limit.
void MakeRoomForClients();

// While it exists, a stop signal (they are blocked in all other threads) ends this process at once with exit code 130
// or 143, and the time limit ends it with 4. Children of the launcher die with it. Throws std::system_error if its
// thread cannot be started.
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
  std::thread thread_;  // declared last: it uses the other members
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_LAUNCH_GUARD_H_
