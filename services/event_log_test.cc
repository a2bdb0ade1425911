// Every follower reads everything, in order, whenever it comes; see event_log.h.
#include "services/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace zerofleet {
namespace {

using testing::ElementsAre;

v1::Event Notice(const std::string& text) {
  v1::Event event;
  event.mutable_notice()->set_message(text);
  return event;
}

struct Follower : EventFollower {
  void Write(const v1::Event& event) override { texts.push_back(event.notice().message()); }
  void Finish() override { ++finished; }
  std::vector<std::string> texts;
  int finished = 0;
};

TEST(EventLogTest, ALateFollowerReadsFromTheBeginning) {
  EventLog log;
  log.Publish(Notice("a"));
  log.Publish(Notice("b"));
  Follower follower;
  log.Add(&follower);
  EXPECT_THAT(follower.texts, ElementsAre("a"));  // one at a time
  log.WriteDone(&follower, true);
  log.WriteDone(&follower, true);
  log.Publish(Notice("c"));
  EXPECT_THAT(follower.texts, ElementsAre("a", "b", "c"));
  log.Remove(&follower);
}

TEST(EventLogTest, TheEndComesAfterTheLastEvent) {
  EventLog log;
  Follower follower;
  log.Add(&follower);
  log.Publish(Notice("a"));
  log.End();
  EXPECT_EQ(follower.finished, 0);
  log.WriteDone(&follower, true);
  EXPECT_EQ(follower.finished, 1);
  log.Leave(&follower);
  EXPECT_EQ(follower.finished, 1);
  EXPECT_FALSE(log.WaitUntilUnfollowed(absl::ZeroDuration()));
  log.Remove(&follower);
  EXPECT_TRUE(log.WaitUntilUnfollowed(absl::ZeroDuration()));
}

TEST(EventLogTest, AFollowerMayLeaveWhileItsWriteIsUnderWay) {
  EventLog log;
  Follower follower;
  log.Add(&follower);
  log.Publish(Notice("a"));
  log.Leave(&follower);
  EXPECT_EQ(follower.finished, 0);
  log.WriteDone(&follower, false);
  log.Publish(Notice("b"));
  EXPECT_EQ(follower.finished, 1);
  EXPECT_THAT(follower.texts, ElementsAre("a"));
  log.Remove(&follower);
}

}  // namespace
}  // namespace zerofleet
