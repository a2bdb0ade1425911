// A run's events, and their followers, each of which reads at its own pace.
//
// The log keeps a window of the newest events, bounded in number and in bytes, so its memory is bounded however long a
// run is and however large its events are. A follower that joins late gets the start event, a notice of how many events
// it missed, and then the window. A follower that falls behind the window is cut off, unless it holds its events: then
// the log keeps what it has not read, up to larger bounds.
//
// Publishing only appends: followers are served by the log's own thread, so publishers never wait for a follower.
#ifndef ZEROFLEET_SERVICES_COORDINATOR_EVENT_LOG_H_
#define ZEROFLEET_SERVICES_COORDINATOR_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::services {

using SharedEvent = std::shared_ptr<const v1::Event>;

// Bytes are those of serialized events. A step's event takes about 200 bytes, a tensor's histogram up to 20 KB; a step
// whose histograms are drawn adds two for each tensor, all at once, and watchers should get through that.
struct EventLogLimits {
  size_t window = 4096;  // events
  size_t window_bytes = 16 << 20;
  size_t held = 131'072;  // the most events that are kept for followers that hold theirs
  size_t held_bytes = 128 << 20;
  size_t followers = 16;
};

// A reader of a log; its members belong to the log. The log's thread makes both calls, without the log's lock, and they
// must only start an operation: the follower answers Write with WriteDone, later or from another thread.
class EventFollower {
 public:
  virtual ~EventFollower() = default;
  virtual void Write(SharedEvent event) = 0;
  virtual void Finish(const absl::Status& status) = 0;  // nothing more follows; called once

 private:
  friend class EventLog;
  struct Cursor {
    uint64_t next = 0;               // index of the next event
    std::deque<SharedEvent> before;  // what to send before it: the start event, and a notice of missing events
    bool holds = false;
  } cursor_;
  bool writing_ = false, leaving_ = false, finished_ = false, queued_ = false;
};

class EventLog {
 public:
  explicit EventLog(EventLogLimits limits = {});
  ~EventLog();  // followers must be gone
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void Publish(v1::Event event);
  void End();  // no event will follow; followers finish once they have read everything

  // ResourceExhausted if there are too many followers; the log does not keep the follower then. With `hold` the log
  // keeps what the follower has not read.
  absl::Status Add(EventFollower* follower, bool hold);
  void WriteDone(EventFollower* follower, bool ok);
  void Leave(EventFollower* follower);   // it needs no more events; its Finish is called
  void Remove(EventFollower* follower);  // call it after Finish; the follower may be deleted then

  // Passes events to `on_event` on the calling thread, holding what is not read yet, until the log has ended.
  // ResourceExhausted if `on_event` was so slow that events were dropped.
  absl::Status Follow(const std::function<void(const v1::Event&)>& on_event);

  // True once a follower that holds its events has been added; false after `timeout`.
  bool WaitUntilHeld(absl::Duration timeout);
  // True once no follower is left; false after `timeout`.
  bool WaitUntilUnfollowed(absl::Duration timeout);

 private:
  using Cursor = EventFollower::Cursor;
  struct Kept {
    SharedEvent event;
    size_t bytes = 0;
  };

  void Attach(Cursor* cursor, bool hold) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasNext(const Cursor& cursor) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next event; null if there is none yet; ResourceExhausted if it is no longer kept.
  absl::StatusOr<SharedEvent> Next(Cursor& cursor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool KeepsMoreThan(size_t events, size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Queue(EventFollower* follower) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ServeUntilShutDown();
  void Serve(EventFollower* follower) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  uint64_t end_index() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return first_ + window_.size(); }
  bool unfollowed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cursors_.empty(); }
  bool work_due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return shutting_down_ || !due_.empty(); }

  const EventLogLimits limits_;
  const uint64_t log_;  // random: see v1::Event
  absl::Mutex mutex_;
  std::deque<Kept> window_ ABSL_GUARDED_BY(mutex_);
  size_t window_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t first_ ABSL_GUARDED_BY(mutex_) = 0;  // index of the window's first event
  SharedEvent start_ ABSL_GUARDED_BY(mutex_);   // the start event, once it has left the window
  std::set<EventFollower*> followers_ ABSL_GUARDED_BY(mutex_);
  std::set<Cursor*> cursors_ ABSL_GUARDED_BY(mutex_);  // those of followers and of Follow's callers
  std::deque<EventFollower*> due_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;  // a follower that holds its events has been added
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread server_;  // last: it uses the others
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COORDINATOR_EVENT_LOG_H_
