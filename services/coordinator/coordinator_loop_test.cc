// The loop around the coordinator: nothing slow under its lock, sessions that say nothing are bounded, logs are
// bounded.
#include "services/coordinator/coordinator_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "coordinator/config_digest.h"
#include "services/common/trace.h"

namespace zerofleet::services {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kPatience = absl::Seconds(20);

// Remembers the kinds of messages it was sent.
class Sink : public SessionSink {
 public:
  void Send(std::shared_ptr<const v1::CoordinatorMessage> message) override {
    absl::MutexLock lock(&mutex_);
    ++sent_[message->body_case()];
    if (message->has_assignment()) key_ = message->assignment().collective_key();
    if (message->has_assignment()) trace_id_ = message->assignment().trace_id();
  }
  void Close() override {}
  void Refuse(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    refused_ = status;
  }
  bool Await(v1::CoordinatorMessage::BodyCase body) {
    absl::MutexLock lock(&mutex_);
    auto come = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sent_[body] > 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&come), kPatience);
  }
  int Count(v1::CoordinatorMessage::BodyCase body) {
    absl::MutexLock lock(&mutex_);
    return sent_[body];
  }
  std::string key() {
    absl::MutexLock lock(&mutex_);
    return key_;
  }
  std::string trace_id() {
    absl::MutexLock lock(&mutex_);
    return trace_id_;
  }
  absl::Status AwaitRefused() {
    absl::MutexLock lock(&mutex_);
    auto come = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !refused_.ok(); };
    mutex_.AwaitWithTimeout(absl::Condition(&come), kPatience);
    return refused_;
  }

 private:
  absl::Mutex mutex_;
  std::map<v1::CoordinatorMessage::BodyCase, int> sent_ ABSL_GUARDED_BY(mutex_);
  absl::Status refused_ ABSL_GUARDED_BY(mutex_);
  std::string key_ ABSL_GUARDED_BY(mutex_), trace_id_ ABSL_GUARDED_BY(mutex_);  // the newest view's
};

class CoordinatorLoopTest : public testing::Test {
 protected:
  CoordinatorLoopTest() {
    hooks_.persist = [](const coordinator::CoordinatorState&) { return absl::OkStatus(); };
    hooks_.persist_patience = absl::ZeroDuration();
    hooks_.set_aside = [](const std::string&) { return absl::OkStatus(); };
    hooks_.discard = [](const coordinator::DiscardSave&) {};
    hooks_.verify = [](const coordinator::VerifyCheckpoint&) { return absl::OkStatus(); };
    hooks_.commit = [](const v1::CheckpointManifest&) { return coordinator::CommittedStep{"dir/step-1", {}}; };
    hooks_.observe = [this](const coordinator::Fleet&, double) {
      absl::MutexLock lock(&ticks_mutex_);
      ++ticks_;
    };
    hooks_.logs = [](LogLevel) { return false; };
    hooks_.log = [](LogLevel, const std::string&) {};
    parameters_.config.mutable_parallel()->set_workers(1);
    parameters_.config.mutable_parallel()->set_tensor(1);
    parameters_.config.set_steps(1);
    parameters_.units = {{"w", 0, 4}};
    parameters_.elements = 4;
    parameters_.config.mutable_restart()->set_heartbeat_timeout_seconds(60);
    parameters_.config.mutable_restart()->set_form_timeout_seconds(60);
    parameters_.config.mutable_restart()->set_load_timeout_seconds(60);
  }
  ~CoordinatorLoopTest() override { End(); }

  void Start() {
    loop_ = std::make_unique<CoordinatorLoop>(parameters_, hooks_, clock_);
    loop_->StartThreads();
  }
  void End() {
    if (loop_ == nullptr) return;
    if (member_ != 0) loop_->ForgetSession(member_);
    loop_.reset();
  }

  void Say(v1::WorkerMessage message) {
    message.set_generation(generation_);
    loop_->Receive(member_, std::move(message));
  }
  // A single worker joins and sends Ready, which forms the fleet.
  void Join() {
    member_ = loop_->OpenSession(&sink_).value();
    v1::WorkerMessage message;
    message.mutable_hello()->set_host("h");
    Say(message);
    message.mutable_ready()->set_parameters(4);
    Say(message);
    generation_ = 1;
  }
  // Up to its Load.
  void Enter() {
    Join();
    ASSERT_TRUE(sink_.Await(v1::CoordinatorMessage::kAssignment));
    v1::WorkerMessage message;
    message.mutable_entered()->set_layout_digest("layout");
    Say(message);
    ASSERT_TRUE(sink_.Await(v1::CoordinatorMessage::kLoad));
  }
  void Train() {
    Enter();
    v1::WorkerMessage message;
    message.mutable_load_result()->set_ok(true);
    Say(message);
    ASSERT_TRUE(sink_.Await(v1::CoordinatorMessage::kStart));
  }
  void SaveStep1() {
    v1::WorkerMessage message;
    v1::ShardWritten& shard = *message.mutable_shard_written();
    shard.set_step(1);
    shard.set_ok(true);
    shard.mutable_file()->set_bytes(60);
    shard.mutable_file()->set_name("rank-00000.safetensors");
    shard.mutable_file()->set_xxh3_128(std::string(32, '1'));
    shard.mutable_file()->add_ranges()->set_flat_end(4);
    shard.mutable_manifest()->set_step(1);
    shard.mutable_manifest()->set_world_size(1);
    shard.mutable_manifest()->set_team(1);
    shard.set_config_digest(coordinator::ConfigDigest(parameters_.config));
    shard.mutable_manifest()->add_tensors()->set_flat_end(4);
    Say(message);
  }
  void FinishStep1() {
    v1::WorkerMessage message;
    message.mutable_finished()->set_step(1);
    Say(message);
  }

  // Advances in steps too small to count as the coordinator's own delay. Each step waits for a tick that began within
  // it; the first tick to be observed may have begun earlier.
  void PassInSteps(int steps, double seconds, const std::function<void()>& in_each) {
    for (int i = 0; i < steps; ++i) {
      clock_.Advance(seconds);
      in_each();
      absl::MutexLock lock(&ticks_mutex_);
      const auto come = [this, wanted = ticks_ + 2] { return ticks_ >= wanted; };
      ASSERT_TRUE(ticks_mutex_.AwaitWithTimeout(absl::Condition(&come), kPatience));
    }
  }

  FakeClock clock_;
  absl::Mutex ticks_mutex_;
  int64_t ticks_ = 0;
  coordinator::FleetParameters parameters_;
  CoordinatorHooks hooks_;
  Sink sink_;
  coordinator::MemberId member_ = 0;
  uint64_t generation_ = 0;
  std::unique_ptr<CoordinatorLoop> loop_;
};

// The session ends like one that a network breaks, not like a refused one, whose worker would end.
TEST_F(CoordinatorLoopTest, ASessionThatIsGivenUpInASilenceOfAllIsUnavailable) {
  Start();
  Train();
  PassInSteps(4, 20, [] {});
  const absl::Status end = sink_.AwaitRefused();
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("connect again"));
  EXPECT_EQ(sink_.Count(v1::CoordinatorMessage::kRefused), 0);
}

// All messages to the largest fleet about a view that forms, and about the loss of all but one, may wait for storage
// together.
TEST_F(CoordinatorLoopTest, TheLargestFleetMayBeLostWhileStorageIsSlow) {
  constexpr int kMembers = 16'384;
  absl::Notification answers;
  hooks_.persist = [&](const coordinator::CoordinatorState&) {
    answers.WaitForNotification();
    return absl::OkStatus();
  };
  parameters_.config.mutable_parallel()->set_workers(kMembers);
  parameters_.config.mutable_restart()->set_max_per_rank(3);
  parameters_.units = {{"w", 0, 1 << 20}};
  parameters_.elements = 1 << 20;
  Start();
  std::vector<Sink> sinks(kMembers);
  std::vector<coordinator::MemberId> members;
  for (Sink& sink : sinks) members.push_back(loop_->OpenSession(&sink).value());
  v1::WorkerMessage hello, ready, entered, loaded, beat;
  ready.mutable_ready()->set_parameters(4);
  entered.mutable_entered()->set_layout_digest("layout");
  loaded.mutable_load_result()->set_ok(true);
  beat.mutable_heartbeat()->set_step(0);
  for (v1::WorkerMessage* message : {&entered, &loaded, &beat}) message->set_generation(1);
  for (v1::WorkerMessage* message : {&hello, &ready, &entered, &loaded}) {
    for (int worker = 0; worker < kMembers; ++worker) {
      if (message == &hello) message->mutable_hello()->set_pid(worker);
      loop_->Receive(members[worker], *message);
    }
  }
  ASSERT_EQ(loop_->GetStatus().phase(), "training");
  PassInSteps(4, 20, [&] { loop_->Receive(members[0], beat); });
  EXPECT_EQ(loop_->GetStatus().phase(), "recovering") << loop_->GetStatus().message();
  answers.Notify();
  for (const coordinator::MemberId member : members) loop_->ForgetSession(member);
  loop_.reset();  // before the sinks
}

// Two workers, of which the second is lost before training and replaced.
TEST_F(CoordinatorLoopTest, AnEventSaysWhenItWasPublished) {
  Start();
  clock_.Advance(1000.25);
  Train();
  loop_->Abandon("read enough");
  std::vector<double> times;
  EXPECT_TRUE(loop_->events().Follow([&](const v1::Event& event) { times.push_back(event.unix_seconds()); }).ok());
  EXPECT_THAT(times, testing::Contains(1000.25));
  EXPECT_THAT(times, testing::Each(1000.25));
}

TEST_F(CoordinatorLoopTest, TheRanksOfAViewHaveOneKeyAndOneTraceIdAndNoLogHasTheKey) {
  absl::Mutex mutex;
  std::string logged;
  hooks_.logs = [](LogLevel) { return true; };
  hooks_.log = [&](LogLevel, const std::string& line) {
    absl::MutexLock lock(&mutex);
    logged += line + "\n";
  };
  parameters_.config.mutable_parallel()->set_workers(2);
  parameters_.config.mutable_restart()->set_max_per_rank(3);
  Start();
  std::array<Sink, 3> sinks;
  std::array<coordinator::MemberId, 3> members = {};
  const auto join = [&](int worker, uint64_t generation) {
    members[worker] = loop_->OpenSession(&sinks[worker]).value();
    v1::WorkerMessage message;
    message.mutable_hello()->set_host(absl::StrCat("h", worker));
    message.mutable_hello()->set_incarnation(absl::StrCat("worker-", worker));
    loop_->Receive(members[worker], message);
    message.set_generation(generation);
    message.mutable_ready()->set_parameters(4);
    loop_->Receive(members[worker], message);
  };
  join(0, 0);
  join(1, 0);
  for (int worker : {0, 1}) ASSERT_TRUE(sinks[worker].Await(v1::CoordinatorMessage::kAssignment));
  const std::string first = sinks[0].key();
  EXPECT_GE(first.size(), 32u);
  EXPECT_EQ(sinks[1].key(), first);
  const std::string first_trace = sinks[0].trace_id();
  EXPECT_TRUE(IsTraceId(first_trace)) << first_trace;

  loop_->SessionEnded(members[1], "lost");
  ASSERT_TRUE(sinks[0].Await(v1::CoordinatorMessage::kRegroup));
  v1::WorkerMessage again;
  again.set_generation(2);
  again.mutable_ready()->set_parameters(4);
  loop_->Receive(members[0], again);
  join(2, 2);
  ASSERT_TRUE(sinks[2].Await(v1::CoordinatorMessage::kAssignment));
  EXPECT_NE(sinks[2].key(), first);
  EXPECT_EQ(sinks[1].trace_id(), first_trace);
  EXPECT_TRUE(IsTraceId(sinks[2].trace_id())) << sinks[2].trace_id();
  EXPECT_NE(sinks[2].trace_id(), first_trace);
  for (coordinator::MemberId member : members) loop_->ForgetSession(member);
  End();
  absl::MutexLock lock(&mutex);
  EXPECT_THAT(logged, HasSubstr("assignment"));
  EXPECT_THAT(logged, AllOf(Not(HasSubstr(first)), Not(HasSubstr(sinks[2].key())), Not(HasSubstr("collective_key"))));
}

TEST_F(CoordinatorLoopTest, SlowStorageDelaysNoMessageAndNothingIsToldBeforeItIsDurable) {
  absl::Notification saving, saved;
  hooks_.persist = [&](const coordinator::CoordinatorState&) {
    saving.Notify();
    saved.WaitForNotification();
    return absl::OkStatus();
  };
  Start();
  absl::Notification heard;
  std::thread worker([&] {
    Join();
    v1::WorkerMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_step(0);
    for (int i = 0; i < 100; ++i) Say(heartbeat);
    loop_->GetStatus();
    heard.Notify();
  });
  EXPECT_TRUE(saving.WaitForNotificationWithTimeout(kPatience));
  EXPECT_TRUE(heard.WaitForNotificationWithTimeout(kPatience)) << "heartbeats wait for the disk";
  EXPECT_EQ(loop_->GetStatus().phase(), "loading");
  saved.Notify();
  worker.join();
  EXPECT_TRUE(sink_.Await(v1::CoordinatorMessage::kAssignment));
}

TEST_F(CoordinatorLoopTest, AStateThatCannotBeSavedForAMomentEndsNothingAndNothingIsToldBeforeItIs) {
  hooks_.persist_patience = kPatience;
  int tries = 0;  // used only by the carrier
  hooks_.persist = [&](const coordinator::CoordinatorState&) {
    EXPECT_EQ(sink_.Count(v1::CoordinatorMessage::kAssignment), 0);
    return ++tries < 3 ? absl::NotFoundError("the directory was removed") : absl::OkStatus();
  };
  Start();
  Train();
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(loop_->GetStatus().phase(), "training");
}

TEST_F(CoordinatorLoopTest, AStateThatCannotBeSavedFailsARunThatWouldHaveEnded) {
  absl::Notification committing, finished;
  hooks_.persist = [](const coordinator::CoordinatorState& state) {
    return state.last_committed_step < 0 ? absl::OkStatus() : absl::ResourceExhaustedError("disk full");
  };
  hooks_.commit = [&](const v1::CheckpointManifest&) {
    committing.Notify();
    finished.WaitForNotification();
    return coordinator::CommittedStep{"dir/step-1", {}};
  };
  Start();
  Train();
  SaveStep1();
  ASSERT_TRUE(committing.WaitForNotificationWithTimeout(kPatience));
  FinishStep1();  // completion now waits only for the commit, and depends on the state that cannot be saved
  finished.Notify();
  const absl::Status end = loop_->WaitForEnd();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("disk full"));
  EXPECT_TRUE(sink_.Await(v1::CoordinatorMessage::kRefused));
  EXPECT_EQ(loop_->GetStatus().phase(), "failed");
}

// On a dead mount the write does not return.
TEST_F(CoordinatorLoopTest, AStateThatHangsIsNamedAndThenEndsTheRun) {
  // The writing thread shares the first two, since it may outlive this test's wait.
  const auto saving = std::make_shared<absl::Notification>(), returns = std::make_shared<absl::Notification>();
  absl::Notification named;
  parameters_.config.mutable_checkpoint()->set_stall_timeout_seconds(1);
  parameters_.config.mutable_restart()->set_form_timeout_seconds(2);
  hooks_.persist_patience = kPatience;
  hooks_.state_path = "state/coordinator.json";
  hooks_.persist = [saving, returns](const coordinator::CoordinatorState&) {
    saving->Notify();  // only once: a hanging write is not retried
    returns->WaitForNotification();
    return absl::OkStatus();
  };
  Start();
  std::thread follows([&] {
    EXPECT_TRUE(loop_->events()
                    .Follow([&](const v1::Event& event) {
                      const std::string& text = event.notice().message();
                      if (text.find("the write of state/coordinator.json has got no further for 1 s") == 0)
                        named.Notify();
                    })
                    .ok());
  });
  Join();
  ASSERT_TRUE(saving->WaitForNotificationWithTimeout(kPatience));
  // Any jump of the clock between two ticks counts as one second here, and as nothing for the fleet.
  while (!named.WaitForNotificationWithTimeout(absl::Milliseconds(10))) clock_.Advance(100);
  EXPECT_EQ(loop_->GetStatus().phase(), "loading");
  EXPECT_EQ(sink_.Count(v1::CoordinatorMessage::kAssignment), 0);
  absl::Status end;
  std::thread waits([&] { end = loop_->WaitForEnd(); });
  while (loop_->GetStatus().phase() != "failed") {
    clock_.Advance(100);
    absl::SleepFor(absl::Milliseconds(10));
  }
  waits.join();
  EXPECT_EQ(end.code(), absl::StatusCode::kDataLoss) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("the write of state/coordinator.json has got no further for 3 s"));
  EXPECT_TRUE(sink_.Await(v1::CoordinatorMessage::kRefused));
  returns->Notify();
  follows.join();
}

// Reading a large checkpoint takes minutes, and only the verdict waits for it.
TEST_F(CoordinatorLoopTest, ACheckpointIsVerifiedWithoutTheLock) {
  absl::Notification verifying, read;
  coordinator::VerifyCheckpoint asked;
  hooks_.verify = [&](const coordinator::VerifyCheckpoint& verify) {
    asked = verify;
    verifying.Notify();
    read.WaitForNotification();
    return absl::DataLossError("dir/step-1/rank-00000.safetensors: corrupt");
  };
  parameters_.candidates = {{"dir/step-1", 1, 0, 0, 0, "d1"}};
  parameters_.may_fall_back = true;
  Start();
  Enter();
  v1::WorkerMessage message;
  message.mutable_load_result()->set_path("dir/step-1");
  message.mutable_load_result()->mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kDataLoss));
  Say(message);
  ASSERT_TRUE(verifying.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(loop_->GetStatus().phase(), "loading");
  EXPECT_EQ(asked.path, "dir/step-1");
  EXPECT_EQ(asked.step, 1);
  EXPECT_EQ(asked.digest, "d1");
  read.Notify();
  const absl::Status end = loop_->WaitForEnd();
  EXPECT_EQ(end.code(), absl::StatusCode::kDataLoss) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("rank-00000.safetensors: corrupt; no older checkpoint is left"));
}

TEST_F(CoordinatorLoopTest, ARunThatHasFailedTellsNobodyOfAStateThatCannotBeSaved) {
  absl::Notification saving, failed;
  hooks_.persist = [&](const coordinator::CoordinatorState&) {
    saving.Notify();
    failed.WaitForNotification();
    return absl::ResourceExhaustedError("disk full");
  };
  Start();
  Join();
  ASSERT_TRUE(saving.WaitForNotificationWithTimeout(kPatience));
  loop_->Stop("an operator");  // the run fails, since it has not begun to train
  failed.Notify();
  EXPECT_EQ(loop_->WaitForEnd().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(sink_.Await(v1::CoordinatorMessage::kRefused));
  EXPECT_EQ(sink_.Count(v1::CoordinatorMessage::kAssignment), 0);
}

TEST_F(CoordinatorLoopTest, SessionsThatSayNothingAreBoundedInNumberAndTime) {
  Start();
  std::vector<Sink> silent(kMostSilentSessions + 1);  // one place is the run's worker's
  std::vector<coordinator::MemberId> members;
  for (Sink& sink : silent) members.push_back(loop_->OpenSession(&sink).value());
  EXPECT_EQ(loop_->OpenSession(&sink_).status().code(), absl::StatusCode::kResourceExhausted);
  clock_.Advance(kHelloSeconds / 2);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_host("h");
  loop_->Receive(members[0], hello);
  ASSERT_TRUE(silent[0].Await(v1::CoordinatorMessage::kWelcome));
  Join();  // one has spoken: there is room
  clock_.Advance(kHelloSeconds / 2 + 1);
  for (size_t i = 1; i < silent.size(); ++i) {
    ASSERT_EQ(silent[i].AwaitRefused().code(), absl::StatusCode::kDeadlineExceeded);
  }
  for (const coordinator::MemberId member : members) loop_->ForgetSession(member);
}

TEST_F(CoordinatorLoopTest, AllWorkersOfARunMayComeAtOnce) {
  parameters_.config.mutable_parallel()->set_workers(200);
  parameters_.config.mutable_restart()->set_spares(5);
  Start();
  std::vector<Sink> workers(205 + kMostSilentSessions);
  std::vector<coordinator::MemberId> members;
  for (Sink& sink : workers) members.push_back(loop_->OpenSession(&sink).value());
  EXPECT_EQ(loop_->OpenSession(&sink_).status().code(), absl::StatusCode::kResourceExhausted);
  loop_->ForgetSession(members.back());
  members.back() = loop_->OpenSession(&workers.back()).value();  // one has left: there is room
  for (const coordinator::MemberId member : members) loop_->ForgetSession(member);
}

TEST_F(CoordinatorLoopTest, StepsAreLoggedForDebuggingOnlyAndLinesAreBounded) {
  std::vector<std::string> info, debug;
  hooks_.logs = [](LogLevel) { return true; };
  hooks_.log = [&](LogLevel level, const std::string& line) {
    (level == LogLevel::kDebug ? debug : info).push_back(line);
  };
  parameters_.version = std::string(5000, 'v');
  Start();
  Train();
  v1::WorkerMessage step;
  step.mutable_event()->mutable_step()->set_step(1);
  Say(step);
  SaveStep1();
  FinishStep1();
  EXPECT_TRUE(loop_->WaitForEnd().ok());
  End();  // writes what is queued
  for (const std::string& line : info) {
    EXPECT_LE(line.size(), 2100u);
    EXPECT_THAT(line, Not(HasSubstr("publish {step")));
    EXPECT_THAT(line, Not(HasSubstr("write manifest")));
  }
  std::string all;
  for (const std::string& line : debug) all += line + "\n";
  EXPECT_THAT(all, HasSubstr("publish {step"));
  EXPECT_THAT(all, HasSubstr("write manifest"));
  EXPECT_EQ(debug.size(), 5u) << all;
}

// A message that is slow to leave delays no other session, and its own session is not forgotten meanwhile.
TEST_F(CoordinatorLoopTest, MessagesComeInWhileOneIsSent) {
  struct SlowSink : SessionSink {
    void Send(std::shared_ptr<const v1::CoordinatorMessage>) override {
      if (sends.HasBeenNotified()) return;
      sends.Notify();
      EXPECT_TRUE(may_send.WaitForNotificationWithTimeout(kPatience));
    }
    void Close() override {}
    void Refuse(const absl::Status&) override {}
    absl::Notification sends, may_send;
  } slow;
  Start();
  const coordinator::MemberId member = loop_->OpenSession(&slow).value();
  v1::WorkerMessage message;
  message.mutable_hello()->set_host("h");
  loop_->Receive(member, message);  // its Welcome
  ASSERT_TRUE(slow.sends.WaitForNotificationWithTimeout(kPatience));
  absl::Notification taken, forgotten;
  std::thread speaks([&] {
    message.mutable_heartbeat()->set_step(0);
    loop_->Receive(member, message);
    taken.Notify();
  });
  EXPECT_TRUE(taken.WaitForNotificationWithTimeout(kPatience));
  std::thread forgets([&] {
    loop_->ForgetSession(member);
    forgotten.Notify();
  });
  EXPECT_FALSE(forgotten.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  slow.may_send.Notify();
  EXPECT_TRUE(forgotten.WaitForNotificationWithTimeout(kPatience));
  speaks.join();
  forgets.join();
}

}  // namespace
}  // namespace zerofleet::services
