// Storage calls that the coordinator cannot go on without, made so that one that never returns is named and given up:
// on a dead mount a write, an fsync or a rename does not return.
#ifndef ZEROFLEET_SERVICES_STORAGE_STORAGE_CALLS_H_
#define ZEROFLEET_SERVICES_STORAGE_STORAGE_CALLS_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace zerofleet::services {

// One call at a time, on a thread of its own. Time is counted at ticks, and each counts for at most a second, so that a
// machine that slept, or a process that did not run, is not taken for hanging storage.
class StorageCalls {
 public:
  struct Limits {
    double stall_seconds = 0;  // checkpoint.stall_timeout_seconds: then people are told; 0: neither this nor giving up
    double patience_seconds = 0;  // restart.form_timeout_seconds: then, on top, the call is given up
  };
  // `tell` gets one line for people, from Tick. `clock` outlives this.
  StorageCalls(Limits limits, std::function<void(const std::string&)> tell, const Clock& clock);
  ~StorageCalls();  // waits for a call that was given up
  StorageCalls(const StorageCalls&) = delete;
  StorageCalls& operator=(const StorageCalls&) = delete;

  // Returns what `call` returns; DataLoss once the call is given up, and for every later call until the first returns.
  // `what` says what it does, with the path: "the write of state/coordinator.json". `call` must own what it uses. From
  // one thread.
  absl::Status Run(const std::string& what, std::function<absl::Status()> call);

  // Whether a call that was given up has not returned yet; the destructor would wait for it.
  bool hangs() const {
    absl::MutexLock lock(&mutex_);
    return running_ && given_up_;
  }

  // Judges the call that is under way. From one thread, which may differ from Run's.
  void Tick();

 private:
  bool settled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return given_up_ || result_.has_value(); }
  bool due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return shutting_down_ || call_ != nullptr; }
  absl::Status GivenUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CallUntilShutDown();

  const Limits limits_;
  const std::function<void(const std::string&)> tell_;
  const Clock& clock_;
  double last_tick_;  // used only by Tick

  mutable absl::Mutex mutex_;
  std::string what_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::Status()> call_ ABSL_GUARDED_BY(mutex_);  // not begun yet
  bool running_ ABSL_GUARDED_BY(mutex_) = false;                // from Run until the call returns
  bool told_ ABSL_GUARDED_BY(mutex_) = false, given_up_ ABSL_GUARDED_BY(mutex_) = false;
  double waited_ ABSL_GUARDED_BY(mutex_) = 0;  // seconds
  std::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_STORAGE_STORAGE_CALLS_H_
