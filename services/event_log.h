// A run's events from its beginning, and those who follow them. Every follower gets every event, in order, at its own
// pace, however late it came.
#ifndef ZEROFLEET_SERVICES_EVENT_LOG_H_
#define ZEROFLEET_SERVICES_EVENT_LOG_H_

#include <cstddef>
#include <deque>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet {

// One who follows a log; its state belongs to the log. Both calls are made with the log's lock held and must only
// start what they do: the follower answers Write with WriteDone, later and from another stack.
class EventFollower {
 public:
  virtual ~EventFollower() = default;
  virtual void Write(const v1::Event& event) = 0;  // `event` stays until WriteDone
  virtual void Finish() = 0;                       // nothing more will come; called once

 private:
  friend class EventLog;
  size_t next_ = 0;
  bool writing_ = false, leaving_ = false, finished_ = false;
};

class EventLog {
 public:
  void Publish(v1::Event event);
  void End();  // no event follows; followers finish once they have read all

  void Add(EventFollower* follower);
  void WriteDone(EventFollower* follower, bool ok);
  void Leave(EventFollower* follower);   // wants no more; its Finish is called
  void Remove(EventFollower* follower);  // is gone; not touched again

  // True once no follower is left; false after `timeout`.
  bool WaitUntilUnfollowed(absl::Duration timeout);

 private:
  void Advance(EventFollower* follower) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool unfollowed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return followers_.empty(); }

  absl::Mutex mutex_;
  std::deque<v1::Event> events_ ABSL_GUARDED_BY(mutex_);  // only grows, so that references to elements hold
  std::set<EventFollower*> followers_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_SERVICES_EVENT_LOG_H_
