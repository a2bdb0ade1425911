// No state of the coordinator waits forever: whichever members are alive but do nothing more, the coordinator acts
// within its state's limit, and its message for people names what it waited for.
//
// The table below has a row for each state; one that is added without a row makes the last test fail.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/away.h"
#include "coordinator/coordinator.h"
#include "coordinator/save_stalls.h"

namespace zerofleet::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr double kForm = 60, kLoad = 90, kHang = 20, kStall = 30, kTickSeconds = 0.5;
constexpr char kResumed[] = "ckpt/step-1";
constexpr char kDigest[] = "d4210b58aa6733c203561db1ef2b62c5";  // the partition digest of 64 elements over 2 ranks

// Two workers that stay alive, and send what a test tells them to.
class Scene {
 public:
  explicit Scene(uint64_t previous = 0, bool resumes = false) : coordinator_(Parameters(previous, resumes), 0) {}

  void Tell(MemberId from, const std::string& text) {
    MessageReceived received{from, {}};
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &received.message)) << text;
    if (received.message.generation() == 0) received.message.set_generation(coordinator_.fleet().generation);
    if (received.message.has_shard_written()) {
      received.message.mutable_shard_written()->set_config_digest(coordinator_.fleet().config_digest);
    }
    if (received.message.hello().has_rejoin()) {
      received.message.mutable_hello()->mutable_rejoin()->set_config_digest(coordinator_.fleet().config_digest);
    }
    sessions_.insert(from);
    Step(received);
  }
  void Step(const CoordinatorEvent& event) {
    for (const Output& output : coordinator_.Step(event, now_)) {
      const auto* published = std::get_if<PublishEvent>(&output.action);
      if (published == nullptr) continue;
      absl::StrAppend(&told_, published->event.notice().message(), published->event.failure().message(), "\n");
    }
  }

  void Join(int ready = 2) {
    for (const MemberId id : {1, 2}) Tell(id, absl::StrCat("hello { host: 'h", id, "' pid: ", id, " }"));
    for (int id = 1; id <= ready; ++id) Tell(id, "ready { config_digest: 'C' }");
  }
  void Enter(int entered = 2) {
    Join();
    for (int id = 1; id <= entered; ++id) Tell(id, "entered { layout_digest: 'L' schedule_digest: 'S' }");
  }
  void Train() {
    Enter();
    for (const MemberId id : {1, 2}) Tell(id, "load_result { ok: true path: '' }");
  }
  // Rank 1 finds its shard damaged, and the coordinator reads the checkpoint.
  void FailToLoad() {
    Enter();
    Tell(1, absl::StrCat("load_result { ok: true path: '", kResumed, "' }"));
    Tell(2, absl::StrCat("load_result { path: '", kResumed, "' failure { code: 15 message: 'corrupt' } }"));
  }
  void WriteShard(int rank, bool ok = true) {
    const std::string ranges = rank == 0 ? "ranges { flat_end: 32 }" : "ranges { flat_begin: 32 flat_end: 64 }";
    Tell(rank + 1, ok ? absl::StrCat("shard_written { step: 1 ok: true file { rank: ", rank, " ", ranges,
                                     " } manifest { step: 1 world_size: 2 team: 1 tensors { flat_end: 64 } } }")
                      : "shard_written { step: 1 failure { code: 15 message: 'full' } }");
  }
  void Save(bool ok = true) {
    Train();
    WriteShard(0);
    WriteShard(1, ok);
  }

  // What both workers send, four times per heartbeat timeout.
  std::string beat = "heartbeat { step: 1 }";

  // Lets time pass, with both workers alive, until people are told something. Returns how long that took; -1 if it did
  // not happen.
  double Wait(double limit) {
    told_.clear();
    for (const double began = now_; now_ - began <= limit + 2 * kTickSeconds; now_ += kTickSeconds) {
      for (const MemberId id : sessions_) Tell(id, id == 1 && !beat_of_first.empty() ? beat_of_first : beat);
      Step(Tick());
      if (!told_.empty()) return now_ - began;
    }
    return -1;
  }
  std::string beat_of_first;  // rank 0's heartbeat, if it differs

  const std::string& told() const { return told_; }
  const Fleet& fleet() const { return coordinator_.fleet(); }
  double now() const { return now_; }

 private:
  static FleetParameters Parameters(uint64_t previous, bool resumes) {
    FleetParameters parameters;
    v1::Config& config = parameters.config;
    config.mutable_parallel()->set_workers(2);
    config.mutable_parallel()->set_tensor(1);
    config.set_steps(4);
    config.mutable_checkpoint()->set_stall_timeout_seconds(kStall);
    config.mutable_restart()->set_form_timeout_seconds(kForm);
    config.mutable_restart()->set_load_timeout_seconds(kLoad);
    config.mutable_restart()->set_hang_timeout_seconds(kHang);
    config.mutable_restart()->set_heartbeat_timeout_seconds(2);
    config.mutable_restart()->set_max_per_rank(3);
    parameters.units = {{"w", 0, 64}};
    parameters.elements = 64;
    parameters.previous_generation = previous;
    if (resumes) parameters.candidates = {{kResumed, 1, 2, 1, 0, "digest"}};
    return parameters;
  }

  Coordinator coordinator_;
  std::set<MemberId> sessions_;
  double now_ = 0;
  std::string told_;
};

struct Row {
  const char* state;
  Phase phase;
  std::optional<PendingCommit::Stage> stage;  // the pending save's, if there is one
  std::function<void(Scene&)> enter;
  double limit;       // seconds
  const char* named;  // what the message for people must contain
  uint64_t previous = 0;
  bool resumes = false;
};

using Stage = PendingCommit::Stage;

std::vector<Row> Rows() {
  constexpr std::nullopt_t kNone = std::nullopt;
  const auto lose_second = [](Scene& scene) { scene.Step(SessionClosed{2, "killed"}); };
  const double hung = kHang + 2 * kTickSeconds;
  return {
      {"nobody is ready", Phase::kForming, kNone, [](Scene& s) { s.Join(1); }, kForm, "host h2, pid 2"},
      {"a rank does not come back", Phase::kAdopting, kNone,
       [](Scene& s) {
         s.Tell(1, absl::StrCat("hello { host: 'h1' pid: 1 incarnation: 'R0' rejoin { generation: 7 assignment { "
                                "axes { name: 'tensor' degree: 1 } axes { name: 'data' degree: 2 } world_size: 2 "
                                "members { host: 'h1' pid: 1 } members { rank: 1 host: 'h1' pid: 2 } team: 2 "
                                "partition_digest: '",
                                kDigest, "' } start { step: 1 } step: 5 } }"));
       },
       AdoptionSeconds(v1::RestartConfig()), "rank 1 (host h1, pid 2)", 7},
      {"nobody enters", Phase::kLoading, kNone, [](Scene& s) { s.Join(); }, kLoad, "no rank has entered the view"},
      {"a rank does not enter", Phase::kLoading, kNone, [](Scene& s) { s.Enter(1); }, kLoad, "rank 1 (host h2, pid 2)"},
      {"a rank does not load", Phase::kLoading, kNone,
       [](Scene& s) {
         s.Enter();
         s.Tell(1, "load_result { ok: true path: '' }");
       },
       kLoad, "rank 1 (host h2, pid 2)"},
      {"the coordinator's reading hangs", Phase::kLoading, kNone, [](Scene& s) { s.FailToLoad(); }, kStall,
       "the coordinator's reading of ckpt/step-1, which a rank could not load, has got no further for 30 s", 0, true},
      {"a rank does not arrive", Phase::kTraining, kNone,
       [](Scene& s) {
         s.Train();
         s.beat = "heartbeat { step: 1 progress { group: 'data' sequence: 8 completed: 8 } }";
         s.beat_of_first = "heartbeat { step: 1 progress { group: 'data' sequence: 9 completed: 8 } }";
       },
       hung, "rank 1 (host h2, pid 2)"},
      {"nobody gets on", Phase::kTraining, kNone, [](Scene& s) { s.Train(); }, kForm, "no rank has made progress"},
      {"a rank's write hangs", Phase::kTraining, Stage::kCollecting,
       [](Scene& s) {
         s.Train();
         s.WriteShard(0);
         s.beat = "heartbeat { step: 1 save { step: 1 bytes: 4096 } }";
         s.beat_of_first = "heartbeat { step: 1 }";
       },
       kStall, "lost rank 1 (host h2, pid 2) at step 1: its write of step 1 has made no progress for 30 s"},
      {"everybody's write hangs", Phase::kTraining, kNone,
       [](Scene& s) {
         s.Train();
         s.beat = "heartbeat { step: 1 save { step: 1 bytes: 4096 } }";
       },
       kStall + kTickSeconds, "no rank's write of step 1 has made progress for 30 s"},
      {"the commit hangs", Phase::kTraining, Stage::kCommitting, [](Scene& s) { s.Save(); }, kStall,
       "the commit of step 1 has got no further for 30 s"},
      {"the removal hangs", Phase::kTraining, Stage::kDiscarding, [](Scene& s) { s.Save(false); }, kStall,
       "the removal of the failed save of step 1 has got no further for 30 s"},
      {"a survivor does not leave", Phase::kRecovering, kNone,
       [&](Scene& s) {
         s.Train();
         lose_second(s);
       },
       hung, "rank 0 (host h1, pid 1)"},
      {"nobody takes the place", Phase::kRecovering, kNone,
       [&](Scene& s) {
         s.Train();
         lose_second(s);
         s.Tell(1, "ready { config_digest: 'C' }");
       },
       kForm, "1 of 2 workers joined"},
      {"the commit holds the next view up", Phase::kRecovering, Stage::kCommitting,
       [&](Scene& s) {
         s.Save();
         lose_second(s);
         s.Tell(1, "ready { config_digest: 'C' }");
       },
       kStall, "the commit of step 1"},
      {"a rank does not finish", Phase::kFinishing, kNone,
       [](Scene& s) {
         s.Train();
         s.Tell(1, "finished { step: 4 }");
       },
       hung, "rank 1 (host h2, pid 2)"},
  };
}

TEST(Deadlines, EveryWaitEndsInTimeAndNamesWhatWasAwaited) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.state);
    Scene scene(row.previous, row.resumes);
    row.enter(scene);
    ASSERT_EQ(Name(scene.fleet().phase), std::string(Name(row.phase)));
    if (row.stage) {
      ASSERT_EQ(scene.fleet().saving.commits.size(), 1u);
      ASSERT_EQ(Name(scene.fleet().saving.commits.begin()->second.stage), std::string(Name(*row.stage)));
    }
    const double waited = scene.Wait(row.limit);
    EXPECT_GE(waited, row.limit - 2 * kTickSeconds) << scene.told();
    EXPECT_THAT(scene.told(), HasSubstr(row.named));
  }
}

// A standstill is reported once, and ends the run if nothing changes; work that makes progress, however slowly, is left
// alone.
TEST(Deadlines, ACommitThatStandsStillEndsTheRunAndOneThatGetsOnDoesNot) {
  Scene scene;
  scene.Save();
  ASSERT_GT(scene.Wait(kStall), 0);
  for (int i = 0; i < 5; ++i) {
    scene.Step(StorageProgress());
    EXPECT_EQ(scene.Wait(kStall - 3 * kTickSeconds), -1) << scene.told();
  }
  ASSERT_GT(scene.Wait(kStall), 0);
  EXPECT_GE(scene.Wait(kForm), kForm - 3 * kTickSeconds);
  EXPECT_THAT(scene.told(), HasSubstr("the commit of step 1 has got no further for 90 s"));
  EXPECT_EQ(scene.fleet().phase, Phase::kFailed);
}

TEST(Deadlines, AReadingThatStandsStillEndsTheRunAndOneThatGetsOnDoesNot) {
  Scene scene(0, /*resumes=*/true);
  scene.FailToLoad();
  for (int i = 0; i < 5; ++i) {  // longer than it may take if its progress is not judged
    scene.Step(StorageProgress());
    EXPECT_EQ(scene.Wait(kStall - 3 * kTickSeconds), -1) << scene.told();
  }
  ASSERT_GT(scene.Wait(kStall), 0);
  EXPECT_GE(scene.Wait(kForm), kForm - 3 * kTickSeconds);
  EXPECT_THAT(scene.told(),
              HasSubstr("reading of ckpt/step-1, which a rank could not load, has got no further for 90 s"));
  EXPECT_EQ(scene.fleet().phase, Phase::kFailed);
}

TEST(Deadlines, AWriteThatGetsOnIsLeftAlone) {
  Scene scene;
  scene.Train();
  scene.WriteShard(0);
  scene.beat_of_first = "heartbeat { step: 1 }";
  for (int64_t bytes = 0; bytes < 5; ++bytes) {
    scene.beat = absl::StrCat("heartbeat { step: 1 save { step: 1 bytes: ", bytes, " } }");
    EXPECT_EQ(scene.Wait(kStall - 3 * kTickSeconds), -1) << scene.told();
  }
  EXPECT_GT(scene.Wait(kStall), 0);
  EXPECT_THAT(scene.told(), HasSubstr("its write of step 1"));
}

// A worker whose attempt to connect began just before the coordinator was back is not given up during its next attempt.
TEST(Deadlines, AWorkerMayMakeTwoWholeAttemptsToComeBack) {
  for (const double heartbeat : {0.1, 2.0, 60.0}) {
    v1::RestartConfig restart;
    restart.set_heartbeat_timeout_seconds(heartbeat);
    EXPECT_GE(AdoptionSeconds(restart), kStreamPauseSeconds + 2 * (kConnectSeconds + kConnectPauseSeconds));
    EXPECT_GE(AdoptionSeconds(restart), 3 * heartbeat);
  }
}

TEST(Deadlines, EveryStateHasARow) {
  std::set<std::string> phases = {Name(Phase::kDone), Name(Phase::kFailed)}, stages;  // these await nothing
  for (const Row& row : Rows()) {
    phases.insert(Name(row.phase));
    if (row.stage) stages.insert(Name(*row.stage));
  }
  for (int phase = 0; *Name(static_cast<Phase>(phase)) != '\0'; ++phase) {
    EXPECT_TRUE(phases.contains(Name(static_cast<Phase>(phase)))) << Name(static_cast<Phase>(phase));
  }
  for (int stage = 0; *Name(static_cast<Stage>(stage)) != '\0'; ++stage) {
    EXPECT_TRUE(stages.contains(Name(static_cast<Stage>(stage)))) << Name(static_cast<Stage>(stage));
  }
}

// The survivor's collective fails before the coordinator notices which rank is gone.
TEST(RankFailures, ARankThatTellsOfALostPeerIsNone) {
  Scene scene;
  scene.Train();
  scene.Tell(1, "failure { code: 14 message: 'rank 1 is gone' in_view: true }");
  EXPECT_TRUE(scene.fleet().counters.rank_failures.empty());
  scene.Step(SessionClosed{2, "killed"});
  EXPECT_EQ(scene.fleet().counters.rank_failures, (std::map<std::string, uint64_t>{{"session_ended", 1}}));
}

TEST(RankFailures, OneThatNobodyElseExplainsCounts) {
  Scene scene;
  scene.Train();
  scene.Tell(1, "failure { code: 14 message: 'rank 1 is gone' in_view: true }");
  ASSERT_GT(scene.Wait(kHang), 0);
  EXPECT_EQ(scene.fleet().counters.rank_failures, (std::map<std::string, uint64_t>{{"reported", 1}}));
}

}  // namespace
}  // namespace zerofleet::coordinator
