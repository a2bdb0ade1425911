// The coordinator's events, received on a thread of its own, for a loop that has signals and children to look after.
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
  explicit RunWatcher(services::OperatorClient& client);  // which outlives it
  ~RunWatcher();

  // A coordinator is there, or was started: follows it once the stream of the one before has ended, for as long as one
  // may take to answer. Another one tells some events again.
  void Again();
  // No coordinator is left that could answer.
  void GiveUp();

  std::vector<v1::Event> Take();  // those received since the last call, in order
  bool ended() const;             // no more will come
  absl::Status status() const;    // of the stream, once it has ended

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
  std::thread thread_;  // last: it uses the others
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_RUN_WATCHER_H_
