// Replay and following of events; see event_log.h.
#include "services/event_log.h"

#include <utility>

namespace zerofleet {

void EventLog::Publish(v1::Event event) {
  absl::MutexLock lock(&mutex_);
  events_.push_back(std::move(event));
  for (EventFollower* follower : followers_) Advance(follower);
}

void EventLog::End() {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
  for (EventFollower* follower : followers_) Advance(follower);
}

void EventLog::Add(EventFollower* follower) {
  absl::MutexLock lock(&mutex_);
  followers_.insert(follower);
  Advance(follower);
}

void EventLog::WriteDone(EventFollower* follower, bool ok) {
  absl::MutexLock lock(&mutex_);
  follower->writing_ = false;
  if (!ok) follower->leaving_ = true;
  Advance(follower);
}

void EventLog::Leave(EventFollower* follower) {
  absl::MutexLock lock(&mutex_);
  follower->leaving_ = true;
  Advance(follower);
}

void EventLog::Remove(EventFollower* follower) {
  absl::MutexLock lock(&mutex_);
  followers_.erase(follower);
}

bool EventLog::WaitUntilUnfollowed(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &EventLog::unfollowed), timeout);
}

void EventLog::Advance(EventFollower* follower) {
  if (follower->writing_ || follower->finished_) return;
  if (!follower->leaving_ && follower->next_ < events_.size()) {
    follower->writing_ = true;
    follower->Write(events_[follower->next_++]);
  } else if (follower->leaving_ || ended_) {
    follower->finished_ = true;
    follower->Finish();
  }
}

}  // namespace zerofleet
