// What is kept for the next coordinator, and what is dropped.
#include "services/session/session_journal.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/config_digest.h"

namespace zerofleet::services {
namespace {

class SessionJournalTest : public testing::Test {
 protected:
  void Say(const std::string& text) {
    v1::WorkerMessage message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    journal_.Sent(message);
  }
  void Hear(const std::string& text, double now = 0) {
    v1::CoordinatorMessage message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    journal_.Arrived(message, now);
  }
  void Join() {
    Say("hello { host: 'a' incarnation: 'x' }");
    Hear("generation: 6 welcome { config { steps: 9 } run: 'r' }");
    Say("generation: 6 ready { parameters: 10 transport_address: 'addr' }");
  }
  void Train() {
    Join();
    Hear(
        "generation: 7 assignment { rank: 1 world_size: 1 collective_key: 'secret' trace_id: 'id' members { host: 'a' "
        "transport_address: 'addr' } owned { "
        "flat_end: 3 } }");
    Say("generation: 7 entered { }");
    Hear("generation: 7 start { step: 4 }", 100);
  }
  std::string Rest() const {
    std::string text;
    for (const v1::WorkerMessage& message : journal_.Rest()) text += message.ShortDebugString() + "\n";
    return text;
  }

  SessionJournal journal_;
};

TEST_F(SessionJournalTest, AWorkerThatHasNotSaidHelloHasNothingToRepeat) {
  EXPECT_FALSE(journal_.Hello(0).has_value());
}

TEST_F(SessionJournalTest, BeforeAViewItIsReadyInWhateverGenerationThereIs) {
  Join();
  EXPECT_EQ(journal_.Hello(0)->ShortDebugString(), "hello { host: \"a\" incarnation: \"x\" rejoin { generation: 6 } }");
  Hear("generation: 8 welcome { }");
  EXPECT_EQ(Rest(), "generation: 8 ready { transport_address: \"addr\" parameters: 10 }\n");
}

TEST_F(SessionJournalTest, InAViewItTellsThePlaceAndTheProgress) {
  Train();
  Say("generation: 7 heartbeat { step: 6 }");
  v1::Config config;
  config.set_steps(9);
  EXPECT_EQ(journal_.Hello(130)->ShortDebugString(),
            absl::StrCat("hello { host: \"a\" incarnation: \"x\" rejoin { generation: 7 assignment { rank: 1 "
                         "world_size: 1 members { host: \"a\" } } start { step: 4 } step: 6 first_step: 4 "
                         "training_seconds: 30 parameters: 10 config_digest: \"",
                         coordinator::ConfigDigest(config), "\" } }"));
  EXPECT_EQ(Rest(), "");
}

// In a large view a session names, of the ranks that it requested, the next one and the one half the view away.
TEST_F(SessionJournalTest, InALargeViewItNamesTwoOthers) {
  Join();
  Hear(
      "generation: 7 assignment { rank: 3 world_size: 100 nodes { nodes: 50 ranks: 2 } axes { name: 'data' degree: 100 "
      "} }");
  std::string low, high;
  for (int rank = 0; rank < 100; ++rank) {
    std::string& page = rank < 50 ? low : high;
    page += "members { rank: " + std::to_string(rank) + " host: 'h" + std::to_string(rank) +
            "' pid: 9 transport_address: 't' service_address: 's' node: 1 } ";
  }
  Hear("generation: 7 peers { " + low + " }");
  Hear("generation: 7 peers { " + high + " }");
  EXPECT_EQ(journal_.Hello(0)->hello().rejoin().assignment().ShortDebugString(),
            "rank: 3 world_size: 100 members { rank: 4 host: \"h4\" pid: 9 } members { rank: 53 host: \"h53\" pid: 9 } "
            "nodes { nodes: 50 ranks: 2 } axes { name: \"data\" degree: 100 }");
  Hear(
      "generation: 8 assignment { rank: 99 world_size: 100 nodes { nodes: 50 ranks: 2 } axes { name: 'data' degree: "
      "100 } }");
  EXPECT_EQ(journal_.Hello(0)->hello().rejoin().assignment().members_size(), 0);
  Hear("generation: 8 peers { " + low + " }");
  EXPECT_EQ(journal_.Hello(0)->hello().rejoin().assignment().members(0).rank(), 0);  // ranks wrap around
}

TEST_F(SessionJournalTest, KeepsAShardUntilItsOutcome) {
  Train();
  Say("generation: 7 shard_written { step: 5 ok: true }");
  EXPECT_EQ(Rest(), "generation: 7 shard_written { step: 5 ok: true }\n");
  Hear("generation: 7 checkpoint { step: 4 committed: true }");
  EXPECT_NE(Rest(), "");
  Hear("generation: 7 checkpoint { step: 5 committed: true }");
  EXPECT_EQ(Rest(), "");
}

// The last save of a run is retried at the same step. The outcome of an earlier try, which a restarted coordinator
// sends once more, does not settle the try in progress.
TEST_F(SessionJournalTest, KeepsATryUntilItsOwnOutcome) {
  Train();
  Say("generation: 7 shard_written { step: 5 }");
  Hear("generation: 7 checkpoint { step: 5 message: 'full' }");
  Say("generation: 7 shard_written { step: 5 ok: true retry: 1 }");
  Hear("generation: 7 checkpoint { step: 5 message: 'full' }");
  EXPECT_EQ(Rest(), "generation: 7 shard_written { step: 5 ok: true retry: 1 }\n");
  Hear("generation: 7 checkpoint { step: 5 message: 'full' retry: 1 }");
  EXPECT_EQ(Rest(), "");
}

TEST_F(SessionJournalTest, ALaterStepSettlesEveryTry) {
  Train();
  Say("generation: 7 shard_written { step: 5 ok: true retry: 2 }");
  Hear("generation: 7 checkpoint { step: 6 committed: true }");
  EXPECT_EQ(Rest(), "");
}

TEST_F(SessionJournalTest, KeepsTheNewestEventsInOrderAndTheEnd) {
  Train();
  const int steps = static_cast<int>(SessionJournal::kMostEvents) + 5;
  for (int step = 1; step <= steps; ++step) Say("generation: 7 event { step { step: " + std::to_string(step) + " } }");
  Say("generation: 7 event { evaluate { step: 3 } }");
  Say("generation: 7 finished { step: 9 }");
  const auto rest = journal_.Rest();
  ASSERT_EQ(rest.size(), SessionJournal::kMostEvents + 1);
  EXPECT_EQ(rest.front().event().step().step(), 7);
  EXPECT_EQ(rest[SessionJournal::kMostEvents - 2].event().step().step(), steps);
  EXPECT_EQ(rest[SessionJournal::kMostEvents - 1].event().evaluate().step(), 3);
  EXPECT_TRUE(rest.back().has_finished());
}

TEST_F(SessionJournalTest, KeepsFewerLargeEvents) {
  Train();
  const std::string text(1 << 20, 'h');
  for (int step = 1; step <= 40; ++step) {
    Say("generation: 7 event { histogram { step: " + std::to_string(step) + " tensor: '" + text + "' } }");
  }
  const auto rest = journal_.Rest();
  ASSERT_EQ(rest.size(), SessionJournal::kMostEventBytes / text.size() - 1);  // each is a little larger than its text
  EXPECT_EQ(rest.back().event().histogram().step(), 40);
}

TEST_F(SessionJournalTest, ARegroupEndsTheViewEvenBeforeTheWorkerHasTakenItIn) {
  Train();
  Say("generation: 7 shard_written { step: 5 }");
  Hear("generation: 8 regroup { reason: 'r' }");
  Say("generation: 7 event { step { step: 6 } }");
  Say("generation: 7 failure { message: 'felt it' in_view: true }");
  EXPECT_EQ(Rest(), "");
  EXPECT_EQ(journal_.Hello(0)->hello().rejoin().ShortDebugString(), "generation: 8");
  Say("generation: 8 ready { parameters: 10 transport_address: 'b' }");
  EXPECT_EQ(Rest(), "generation: 8 ready { transport_address: \"b\" parameters: 10 }\n");
}

}  // namespace
}  // namespace zerofleet::services
