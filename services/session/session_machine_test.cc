// A session's states with the test's own clock and streams: what follows what, and when.
#include "services/session/session_machine.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using Phase = SessionMachine::Phase;
using ::testing::HasSubstr;

class SessionMachineTest : public testing::Test {
 protected:
  void Say(const std::string& text) {
    v1::WorkerMessage message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    EXPECT_TRUE(machine_.Send(message).ok());
  }
  SessionMachine::Arrival Hear(const std::string& text) {
    v1::CoordinatorMessage message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    return machine_.Arrived(message, now_);
  }
  void TakeAll() {
    while (machine_.Take()) continue;
  }
  // What is written now, with heartbeats as "beat".
  std::vector<std::string> Written() {
    std::vector<std::string> lines;
    for (;;) {
      NextWrite next = machine_.Next(now_);
      if (auto* message = std::get_if<v1::WorkerMessage>(&next)) {
        lines.push_back(message->ShortDebugString());
      } else if (std::holds_alternative<WriteHeartbeat>(next)) {
        machine_.Beat({});
        lines.push_back("beat");
      } else {
        return lines;
      }
    }
  }
  std::optional<std::string> Break() {
    return machine_.Ended({StreamEnd::Kind::kBroken, absl::UnavailableError("lost the coordinator at c:1: gone")}, now_,
                          /*jitter=*/1);
  }
  // Advances to the end of the pause, when the machine connects.
  void Wait() {
    ASSERT_EQ(machine_.phase(), Phase::kPausing);
    now_ = machine_.paused_until();
    machine_.Tick(now_);
  }
  void Reopen() {
    Wait();
    machine_.Connected(now_);
    ASSERT_EQ(machine_.phase(), Phase::kOpen);
  }

  double now_ = 100;
  SessionMachine machine_{{.coordinator = "c:1", .connect_timeout_seconds = 60}};
};

TEST_F(SessionMachineTest, NothingFollowsTheHelloOfAWorkerThatCameBackBeforeItIsWelcomed) {
  Say("hello { host: 'a' }");
  Hear("generation: 6 welcome { config { restart { heartbeat_timeout_seconds: 2 } } }");
  TakeAll();
  machine_.StartHeartbeats();
  EXPECT_THAT(Written(), testing::ElementsAre("beat", "hello { host: \"a\" }"));
  Say("ready { parameters: 10 }");
  EXPECT_EQ(Break(), "lost the coordinator at c:1: gone; going on, and connecting again");
  Say("event { step { step: 1 } }");
  Reopen();
  now_ += 10;
  EXPECT_THAT(Written(), testing::ElementsAre("hello { host: \"a\" rejoin { generation: 6 } }"));
  EXPECT_TRUE(Hear("generation: 6 welcome { config { restart { heartbeat_timeout_seconds: 2 } } }").adopted);
  EXPECT_THAT(Written(), testing::ElementsAre("beat", "generation: 6 ready { parameters: 10 }",
                                              "generation: 6 event { step { step: 1 } }"));
}

TEST_F(SessionMachineTest, AWelcomeOfALaterGenerationSaysNothingOfTheViewItIsIn) {
  Say("hello { host: 'a' }");
  Hear("generation: 6 welcome { }");
  Hear("generation: 7 assignment { world_size: 1 }");
  TakeAll();
  Break();
  Reopen();
  Hear("generation: 8 welcome { }");
  TakeAll();
  Written();
  Say("event { step { step: 1 } }");
  EXPECT_THAT(Written(), testing::ElementsAre("generation: 7 event { step { step: 1 } }"));
  Break();  // before generation 8's Regroup has arrived
  Reopen();
  EXPECT_THAT(
      Written(),
      testing::ElementsAre(testing::StartsWith("hello { host: \"a\" rejoin { generation: 7 assignment { world_size")));
  Hear("generation: 8 welcome { }");
  Hear("generation: 8 regroup { }");
  TakeAll();
  Written();
  Say("ready { }");
  EXPECT_THAT(Written(), testing::ElementsAre("generation: 8 ready { }"));
}

TEST_F(SessionMachineTest, PausesGrowUntilItIsWelcomedAndItGivesUpInTheTimeThatTheRunSays) {
  Say("hello { host: 'a' }");
  Hear("welcome { config { restart { form_timeout_seconds: 300 reconnect_timeout_seconds: 10 } } }");
  double last = 0;
  EXPECT_TRUE(Break());
  for (int i = 0; i < 4; ++i) {
    const double pause = machine_.paused_until() - now_;
    EXPECT_GT(pause, 1.5 * last);
    last = pause;
    Reopen();
    EXPECT_FALSE(Break()) << "it has said that it goes on";
  }
  Wait();
  now_ = 109.9;
  machine_.Tick(now_);
  EXPECT_EQ(machine_.phase(), Phase::kConnecting);
  now_ = 110.1;
  machine_.Connected(now_);  // too late
  EXPECT_EQ(machine_.phase(), Phase::kOver);
  EXPECT_EQ(
      machine_.lost().message(),
      "lost the coordinator at c:1: gone; no coordinator has answered at c:1 for 10 s "
      "(restart.reconnect_timeout_seconds), so this worker ends; this worker saw no checkpoint committed; to go on, "
      "start the coordinator again with the same --state-dir, and then the workers");
}

TEST_F(SessionMachineTest, TheLastWordsNameTheLastCommit) {
  Say("hello { host: 'a' }");
  Hear("welcome { config { restart { reconnect_timeout_seconds: 10 } } }");
  Hear("checkpoint { step: 20 committed: true }");
  Hear("checkpoint { step: 40 message: 'disk full' }");
  EXPECT_TRUE(Break());
  Wait();
  now_ += 11;
  machine_.Tick(now_);
  EXPECT_EQ(machine_.phase(), Phase::kOver);
  EXPECT_THAT(std::string(machine_.lost().message()),
              HasSubstr("the last checkpoint that this worker saw committed is step 20;"));
}

// Before the Welcome the run's time-out is not known.
TEST_F(SessionMachineTest, TheLastWordsNameNoKeyThatDoesNotRule) {
  Say("hello { host: 'a' }");
  EXPECT_TRUE(Break());
  Wait();
  now_ += 61;
  machine_.Tick(now_);
  EXPECT_EQ(machine_.phase(), Phase::kOver);
  EXPECT_THAT(std::string(machine_.lost().message()), HasSubstr("at c:1 for 60 s, so"));
}

TEST_F(SessionMachineTest, BeatsAtAQuarterOfTheTimeout) {
  EXPECT_EQ(HeartbeatSeconds(2), 0.5);
  EXPECT_EQ(HeartbeatSeconds(0.001), 0.05);
  Hear("welcome { config { restart { heartbeat_timeout_seconds: 0.8 } } }");
  machine_.StartHeartbeats();
  EXPECT_THAT(Written(), testing::ElementsAre("beat"));
  EXPECT_DOUBLE_EQ(machine_.NextHeartbeat(), now_ + 0.2);
}

TEST_F(SessionMachineTest, TheEndAfterCompleteAndARefusalAreFinal) {
  EXPECT_EQ(Hear("refused { code: 9 message: 'left behind' }").status, absl::FailedPreconditionError("left behind"));
  Hear("complete { }");
  Break();
  EXPECT_EQ(machine_.phase(), Phase::kOver);
  EXPECT_TRUE(machine_.completed());
}

TEST_F(SessionMachineTest, AClosedSessionWritesWhatIsLeftAndOpensNoOther) {
  Say("failure { message: 'mine' }");
  machine_.Close();
  EXPECT_THAT(Written(), testing::ElementsAre("failure { message: \"mine\" }"));
  EXPECT_TRUE(std::holds_alternative<WriteNoMore>(machine_.Next(now_)));
  EXPECT_FALSE(Break());
  EXPECT_EQ(machine_.phase(), Phase::kOver);
}

TEST_F(SessionMachineTest, ACoordinatorWithoutRoomIsTriedAgainByThoseItKnew) {
  Say("hello { host: 'a' }");
  Hear("welcome { }");
  Break();
  Reopen();
  machine_.Ended({StreamEnd::Kind::kFull, absl::UnavailableError("full")}, now_, 0);
  EXPECT_EQ(machine_.phase(), Phase::kPausing);
}

}  // namespace
}  // namespace zerofleet::services
