// Receives the coordinator's events on a thread of its own, for a loop that also handles signals and children.
#ifndef ZEROFLEET_CLI_LAUNCHER_RUN_WATCHER_H_
#define ZEROFLEET_CLI_LAUNCHER_RUN_WATCHER_H_

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/session/operator_client.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::cli {

class RunWatcher {
 public:
  explicit RunWatcher(services::OperatorClient& client);  // must outlive the watcher
  ~RunWatcher();

  // To be called when a coordinator is running that may answer: once the current stream has ended, follows the
  // coordinator again, waiting for it up to 30 seconds. A restarted coordinator repeats some events.
  void Again();
  // To be called when no coordinator is left that could answer: stops waiting for one.
  void GiveUp();

  std::vector<v1::Event> Take();  // the events received since the last call, in order
  bool ended() const;             // no more events will come
  absl::Status status() const;    // how the stream ended, once it has

 private:
  void Watch();
  bool MayGoOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return leaving_ || !ended_; }
  bool MayWait() const;

  services::OperatorClient& client_;
  mutable absl::Mutex mutex_;
  std::vector<v1::Event> events_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time again_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // declared last: it uses the other members
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_RUN_WATCHER_H_
