// Followers that keep up read everything in order, the log stays bounded, and publishers never wait for followers.
#include "services/coordinator/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace zerofleet::services {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::Duration kFollowerPatience = absl::Seconds(20);

v1::Event Notice(const std::string& text) {
  v1::Event event;
  event.mutable_notice()->set_message(text);
  return event;
}

v1::Event Step(int64_t step) {
  v1::Event event;
  event.mutable_step()->set_step(step);
  return event;
}

// Remembers what it was sent; answers its writes itself if `log` is set, otherwise when the test says so.
class Follower : public EventFollower {
 public:
  explicit Follower(EventLog* log = nullptr) : log_(log) {}

  void Write(SharedEvent event) override {
    {
      absl::MutexLock lock(&mutex_);
      texts_.push_back(event->has_notice() ? event->notice().message() : absl::StrCat(event->step().step()));
    }
    if (log_ != nullptr) log_->WriteDone(this, true);
  }
  void Finish(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    ++finished_;
    status_ = status;
  }

  // Waits for `count` events and returns their texts; fewer if they do not come in time.
  std::vector<std::string> Texts(size_t count) {
    absl::MutexLock lock(&mutex_);
    auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return texts_.size() >= count; };
    mutex_.AwaitWithTimeout(absl::Condition(&enough), kFollowerPatience);
    return texts_;
  }
  absl::Status Finished() {
    absl::MutexLock lock(&mutex_);
    auto finished = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finished_ > 0; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&finished), kFollowerPatience));
    EXPECT_EQ(finished_, 1);
    return status_;
  }
  bool finished() {
    absl::MutexLock lock(&mutex_);
    return finished_ > 0;
  }
  // Call it before destruction: until Finish, the log's thread may still be inside a call.
  void LeaveForGood(EventLog& log) {
    log.Leave(this);
    log.WriteDone(this, true);
    EXPECT_TRUE(Finished().ok());
    log.Remove(this);
  }

 private:
  EventLog* const log_;
  absl::Mutex mutex_;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_);
  int finished_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

TEST(EventLogTest, ALateFollowerReadsTheWindowOneEventAtATime) {
  EventLog log;
  log.Publish(Notice("a"));
  log.Publish(Notice("b"));
  Follower follower;
  ASSERT_TRUE(log.Add(&follower, false).ok());
  EXPECT_THAT(follower.Texts(1), ElementsAre("a"));
  log.WriteDone(&follower, true);
  EXPECT_THAT(follower.Texts(2), ElementsAre("a", "b"));
  log.Publish(Notice("c"));
  log.WriteDone(&follower, true);
  EXPECT_THAT(follower.Texts(3), ElementsAre("a", "b", "c"));
  follower.LeaveForGood(log);
}

TEST(EventLogTest, TheEndComesAfterTheLastEvent) {
  EventLog log;
  Follower follower;
  ASSERT_TRUE(log.Add(&follower, false).ok());
  log.Publish(Notice("a"));
  follower.Texts(1);
  log.End();
  EXPECT_FALSE(follower.finished());
  log.WriteDone(&follower, true);
  EXPECT_TRUE(follower.Finished().ok());
  log.Leave(&follower);
  EXPECT_FALSE(log.WaitUntilUnfollowed(absl::ZeroDuration()));
  log.Remove(&follower);
  EXPECT_TRUE(log.WaitUntilUnfollowed(absl::ZeroDuration()));
  EXPECT_TRUE(follower.Finished().ok());  // once
}

TEST(EventLogTest, AFollowerMayLeaveWhileItsWriteIsUnderWay) {
  EventLog log;
  Follower follower;
  ASSERT_TRUE(log.Add(&follower, false).ok());
  log.Publish(Notice("a"));
  follower.Texts(1);
  log.Leave(&follower);
  EXPECT_FALSE(follower.finished());
  log.WriteDone(&follower, false);
  log.Publish(Notice("b"));
  EXPECT_TRUE(follower.Finished().ok());
  EXPECT_THAT(follower.Texts(1), ElementsAre("a"));
  log.Remove(&follower);
}

TEST(EventLogTest, WhoComesLateIsToldWhatIsMissingAndGetsTheStart) {
  EventLog log({.window = 2});
  v1::Event start;
  start.mutable_start()->set_version("1");
  log.Publish(start);
  for (int64_t step = 1; step <= 5; ++step) log.Publish(Step(step));
  log.End();
  std::vector<v1::Event> events;
  EXPECT_TRUE(log.Follow([&](const v1::Event& event) { events.push_back(event); }).ok());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_TRUE(events[0].has_start());
  EXPECT_THAT(events[1].notice().message(), HasSubstr("3 earlier events"));
  EXPECT_EQ(events[2].step().step(), 4);
  EXPECT_EQ(events[3].step().step(), 5);
}

TEST(EventLogTest, AFollowerThatFallsBehindIsCutOffAndHoldsNothing) {
  EventLog log({.window = 4});
  Follower slow;
  ASSERT_TRUE(log.Add(&slow, false).ok());
  log.Publish(Step(1));
  slow.Texts(1);
  for (int64_t step = 2; step <= 10; ++step) log.Publish(Step(step));
  log.WriteDone(&slow, true);
  const absl::Status end = slow.Finished();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("5 after event 1"));
  EXPECT_THAT(slow.Texts(1), ElementsAre("1"));
  log.Remove(&slow);
}

TEST(EventLogTest, AHoldingFollowerLosesNothingUpToTheLargerBound) {
  EventLog log({.window = 2, .held = 100});
  Follower slow;
  ASSERT_TRUE(log.Add(&slow, true).ok());
  std::vector<std::string> expected;
  for (int64_t step = 1; step <= 100; ++step) {
    log.Publish(Step(step));
    expected.push_back(absl::StrCat(step));
  }
  for (size_t read = 1; read <= expected.size(); ++read) {
    ASSERT_EQ(slow.Texts(read).size(), read);
    log.WriteDone(&slow, true);
  }
  EXPECT_EQ(slow.Texts(100), expected);
  EXPECT_FALSE(slow.finished());
  log.Publish(Step(101));
  slow.Texts(101);  // one event is being written; none of the following is read
  for (int64_t step = 102; step <= 300; ++step) log.Publish(Step(step));
  log.WriteDone(&slow, true);
  EXPECT_EQ(slow.Finished().code(), absl::StatusCode::kResourceExhausted);
  log.Remove(&slow);
}

// A histogram of one tensor: `bytes` and a little more.
v1::Event Large(int64_t step, size_t bytes) {
  v1::Event event;
  event.mutable_histogram()->set_step(step);
  event.mutable_histogram()->set_tensor(std::string(bytes, 'x'));
  return event;
}

TEST(EventLogTest, LargeEventsLeaveBeforeTheWindowIsFull) {
  EventLog log({.window = 100, .window_bytes = 10'000});
  v1::Event start;
  start.mutable_start()->set_version("1");
  log.Publish(start);
  for (int64_t step = 1; step <= 20; ++step) log.Publish(Large(step, 3000));
  log.End();
  std::vector<v1::Event> events;
  EXPECT_TRUE(log.Follow([&](const v1::Event& event) { events.push_back(event); }).ok());
  ASSERT_EQ(events.size(), 5u);
  EXPECT_TRUE(events[0].has_start());
  EXPECT_THAT(events[1].notice().message(), HasSubstr("17 earlier events"));
  for (size_t i = 2; i < 5; ++i) {
    EXPECT_EQ(events[i].histogram().step(), static_cast<int64_t>(16 + i));
    EXPECT_EQ(events[i].number(), 17 + i);
  }
}

TEST(EventLogTest, AnEventLargerThanTheWindowIsKeptUntilTheNext) {
  EventLog log({.window = 100, .window_bytes = 1000});
  log.Publish(Step(1));
  log.Publish(Large(2, 3000));
  Follower first;
  ASSERT_TRUE(log.Add(&first, false).ok());
  EXPECT_THAT(first.Texts(1), ElementsAre(HasSubstr("1 earlier events")));
  log.WriteDone(&first, true);
  EXPECT_EQ(first.Texts(2).size(), 2u);
  log.Publish(Step(3));
  log.WriteDone(&first, true);
  EXPECT_THAT(first.Texts(3), testing::Contains("3"));
  first.LeaveForGood(log);
}

TEST(EventLogTest, WhatIsHeldIsBoundedInBytesToo) {
  EventLog log({.window = 2, .window_bytes = 10'000, .held = 1000, .held_bytes = 100'000});
  Follower slow;
  ASSERT_TRUE(log.Add(&slow, true).ok());
  for (int64_t step = 1; step <= 30; ++step) log.Publish(Large(step, 3000));
  for (size_t read = 1; read <= 30; ++read) {
    ASSERT_EQ(slow.Texts(read).size(), read);
    log.WriteDone(&slow, true);
  }
  EXPECT_FALSE(slow.finished());
  log.Publish(Step(31));
  slow.Texts(31);
  for (int64_t step = 32; step <= 100; ++step) log.Publish(Large(step, 3000));
  log.WriteDone(&slow, true);
  EXPECT_EQ(slow.Finished().code(), absl::StatusCode::kResourceExhausted);
  log.Remove(&slow);
}

TEST(EventLogTest, WhoPublishesDoesNotWaitForAFollower) {
  struct Stuck : EventFollower {
    void Write(SharedEvent) override {
      inside.Notify();
      go_on.WaitForNotification();
    }
    void Finish(const absl::Status&) override { finished.Notify(); }
    absl::Notification inside, go_on, finished;
  };
  EventLog log;
  Stuck stuck;
  ASSERT_TRUE(log.Add(&stuck, false).ok());
  log.Publish(Step(1));
  ASSERT_TRUE(stuck.inside.WaitForNotificationWithTimeout(kFollowerPatience));
  absl::Notification published;
  std::thread publisher([&] {
    for (int64_t step = 2; step <= 1000; ++step) log.Publish(Step(step));
    published.Notify();
  });
  EXPECT_TRUE(published.WaitForNotificationWithTimeout(kFollowerPatience));
  stuck.go_on.Notify();
  publisher.join();
  log.Leave(&stuck);
  log.WriteDone(&stuck, false);
  stuck.finished.WaitForNotification();
  log.Remove(&stuck);
}

TEST(EventLogTest, FollowersAreBoundedInNumber) {
  EventLog log({.followers = 2});
  Follower first, second, third;
  ASSERT_TRUE(log.Add(&first, false).ok());
  ASSERT_TRUE(log.Add(&second, false).ok());
  EXPECT_EQ(log.Add(&third, false).code(), absl::StatusCode::kResourceExhausted);
  first.LeaveForGood(log);
  EXPECT_TRUE(log.Add(&third, false).ok());
  second.LeaveForGood(log);
  third.LeaveForGood(log);
}

TEST(EventLogTest, FollowsOnAThreadWhileEventsArePublished) {
  EventLog log({.window = 4});
  std::vector<int64_t> steps;
  std::thread reader(
      [&] { EXPECT_TRUE(log.Follow([&](const v1::Event& event) { steps.push_back(event.step().step()); }).ok()); });
  while (log.WaitUntilUnfollowed(absl::ZeroDuration())) std::this_thread::yield();
  Follower quick(&log);
  ASSERT_TRUE(log.Add(&quick, true).ok());
  for (int64_t step = 1; step <= 1000; ++step) log.Publish(Step(step));
  log.End();
  reader.join();
  ASSERT_EQ(steps.size(), 1000u);
  EXPECT_EQ(steps.back(), 1000);
  EXPECT_EQ(quick.Texts(1000).size(), 1000u);
  EXPECT_TRUE(quick.Finished().ok());
  log.Remove(&quick);
}

}  // namespace
}  // namespace zerofleet::services
