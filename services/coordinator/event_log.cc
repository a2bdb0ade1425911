// The window of events and the thread that serves followers; see event_log.h.
#include "services/coordinator/event_log.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zerofleet::services {
namespace {

uint64_t RandomNumber() {
  std::random_device random;
  return std::uniform_int_distribution<uint64_t>(1)(random);
}

// The notice that stands for events that are no longer kept, up to number `last`.
SharedEvent MissingNotice(uint64_t missing, uint64_t log, uint64_t last) {
  auto event = std::make_shared<v1::Event>();
  event->set_log(log);
  event->set_number(last);
  event->mutable_notice()->set_message(
      absl::StrCat(missing, " earlier events of this run are no longer kept; its report has them"));
  return event;
}

}  // namespace

EventLog::EventLog(EventLogLimits limits)
    : limits_(limits), log_(RandomNumber()), server_([this] { ServeUntilShutDown(); }) {}

EventLog::~EventLog() {
  {
    absl::MutexLock lock(&mutex_);
    shutting_down_ = true;
  }
  server_.join();
}

void EventLog::Publish(v1::Event event) {
  event.set_log(log_);
  absl::MutexLock lock(&mutex_);
  event.set_number(end_index() + 1);
  const size_t bytes = event.ByteSizeLong();
  window_.push_back({std::make_shared<const v1::Event>(std::move(event)), bytes});
  window_bytes_ += bytes;
  Trim();
  for (EventFollower* follower : followers_) Queue(follower);
}

void EventLog::End() {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
  for (EventFollower* follower : followers_) Queue(follower);
}

absl::Status EventLog::Add(EventFollower* follower, bool hold) {
  absl::MutexLock lock(&mutex_);
  if (followers_.size() >= limits_.followers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the run's events are watched by ", followers_.size(), " clients already, the most allowed"));
  }
  followers_.insert(follower);
  held_ = held_ || hold;
  Attach(&follower->cursor_, hold);
  Queue(follower);
  return absl::OkStatus();
}

void EventLog::WriteDone(EventFollower* follower, bool ok) {
  absl::MutexLock lock(&mutex_);
  follower->writing_ = false;
  if (!ok) follower->leaving_ = true;
  Queue(follower);
}

void EventLog::Leave(EventFollower* follower) {
  absl::MutexLock lock(&mutex_);
  follower->leaving_ = true;
  Queue(follower);
}

void EventLog::Remove(EventFollower* follower) {
  absl::MutexLock lock(&mutex_);
  followers_.erase(follower);
  cursors_.erase(&follower->cursor_);
  std::erase(due_, follower);
}

absl::Status EventLog::Follow(const std::function<void(const v1::Event&)>& on_event) {
  Cursor cursor;
  absl::MutexLock lock(&mutex_);
  Attach(&cursor, /*hold=*/true);
  auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ || HasNext(cursor); };
  absl::StatusOr<SharedEvent> event;
  while (true) {
    mutex_.Await(absl::Condition(&ready));
    event = Next(cursor);
    if (!event.ok() || *event == nullptr) break;
    mutex_.Unlock();
    on_event(**event);
    mutex_.Lock();
  }
  cursors_.erase(&cursor);
  return event.status();
}

bool EventLog::WaitUntilHeld(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&held_), timeout);
}

bool EventLog::WaitUntilUnfollowed(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &EventLog::unfollowed), timeout);
}

void EventLog::Attach(Cursor* cursor, bool hold) {
  cursor->holds = hold;
  cursor->next = first_;
  if (first_ > 0) {
    const uint64_t missing = first_ - (start_ == nullptr ? 0 : 1);
    if (start_ != nullptr) cursor->before.push_back(start_);
    if (missing > 0) cursor->before.push_back(MissingNotice(missing, log_, first_));
  }
  cursors_.insert(cursor);
}

bool EventLog::HasNext(const Cursor& cursor) const { return !cursor.before.empty() || cursor.next < end_index(); }

absl::StatusOr<SharedEvent> EventLog::Next(Cursor& cursor) {
  if (!cursor.before.empty()) {
    SharedEvent event = std::move(cursor.before.front());
    cursor.before.pop_front();
    return event;
  }
  if (cursor.next < first_) {
    return absl::ResourceExhaustedError(absl::StrCat("events were read too slowly: the ", first_ - cursor.next,
                                                     " after event ", cursor.next, " are no longer kept"));
  }
  if (cursor.next == end_index()) return SharedEvent();
  return window_[cursor.next++ - first_].event;
}

bool EventLog::KeepsMoreThan(size_t events, size_t bytes) const {
  return window_.size() > events || window_bytes_ > bytes;
}

// The newest event stays, however large it is.
void EventLog::Trim() {
  uint64_t needed = end_index();  // the oldest event that must stay
  for (const Cursor* cursor : cursors_) {
    if (cursor->holds) needed = std::min(needed, cursor->next);
  }
  while (window_.size() > 1 && KeepsMoreThan(limits_.window, limits_.window_bytes) &&
         (first_ < needed || KeepsMoreThan(limits_.held, limits_.held_bytes))) {
    if (window_.front().event->has_start()) start_ = window_.front().event;
    window_bytes_ -= window_.front().bytes;
    window_.pop_front();
    ++first_;
  }
}

void EventLog::Queue(EventFollower* follower) {
  if (follower->writing_ || follower->finished_ || follower->queued_) return;
  follower->queued_ = true;
  due_.push_back(follower);
}

void EventLog::ServeUntilShutDown() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &EventLog::work_due));
    if (shutting_down_) return;
    EventFollower* follower = due_.front();
    due_.pop_front();
    follower->queued_ = false;
    Serve(follower);
  }
}

// A follower is deleted only after its Finish, which only this thread calls: it outlives the calls made without the
// lock.
void EventLog::Serve(EventFollower* follower) {
  absl::StatusOr<SharedEvent> next = SharedEvent();
  if (!follower->leaving_) next = Next(follower->cursor_);
  if (next.ok() && *next != nullptr) {
    follower->writing_ = true;
    mutex_.Unlock();
    follower->Write(*std::move(next));
    mutex_.Lock();
  } else if (follower->leaving_ || ended_ || !next.ok()) {
    follower->finished_ = true;
    mutex_.Unlock();
    follower->Finish(next.status());
    mutex_.Lock();
  }
}

}  // namespace zerofleet::services
