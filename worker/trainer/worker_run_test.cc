// Whole lives of workers against the real coordinator core: to the end, stopped, resumed, refused.
#include "worker/trainer/worker_run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/file_calls_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/manifest.h"
#include "worker/model/model_testing.h"
#include "worker/optim/loss_scaling.h"
#include "worker/trainer/known_cpu_testing.h"
#include "worker/trainer/memory_fleet_testing.h"
#include "worker/trainer/null_metrics.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::trainer {
namespace {

using ::testing::HasSubstr;

class SkipCounter : public NullMetrics {
 public:
  void StepSkipped() override { ++skipped; }
  int skipped = 0;
};

class WorkerRunTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = JoinPath(testing::TempDir(), "zerofleet_worker_run_" + std::to_string(getpid()));
    ASSERT_TRUE(RemoveTree(directory_).ok());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
    std::string text;
    for (int i = 0; i < 4000; ++i) text += "abcdefgh "[(i * i + i / 7) % 9];
    ASSERT_TRUE(WriteFileAtomically(JoinPath(directory_, "text.txt"), text).ok());
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  v1::Config Config(int workers, int stage) const {
    v1::Config config;
    *config.mutable_model() = model::TestModelConfig(2, 16, 2, 8, 256);
    config.mutable_data()->add_train(JoinPath(directory_, "text.txt"));
    config.mutable_data()->add_validation(JoinPath(directory_, "text.txt"));
    config.mutable_data()->set_format("text");
    config.mutable_data()->set_tokenizer("bytes");
    config.mutable_parallel()->set_workers(workers);
    config.mutable_parallel()->set_zero_stage(stage);
    config.mutable_parallel()->set_tensor(1);
    config.set_precision("fp32");
    config.mutable_batch()->set_global_sequences(12);
    config.mutable_batch()->set_micro_sequences(12 / workers);
    config.mutable_optimizer()->set_name("adamw");
    config.mutable_optimizer()->set_learning_rate(1e-3);
    config.mutable_optimizer()->set_beta1(0.9);
    config.mutable_optimizer()->set_beta2(0.95);
    config.mutable_optimizer()->set_epsilon(1e-8);
    config.mutable_schedule()->set_decay("constant");
    config.set_steps(8);
    config.mutable_evaluate()->set_every_steps(4);
    config.mutable_evaluate()->set_batches(2);
    config.mutable_checkpoint()->set_dir(JoinPath(directory_, "checkpoints"));
    config.mutable_checkpoint()->set_keep(10);
    config.set_device("cpu");
    config.set_collectives("auto");
    config.mutable_restart()->set_form_timeout_seconds(60);
    config.mutable_restart()->set_heartbeat_timeout_seconds(60);
    config.set_seed(3);
    return config;
  }

  // Runs every worker of `config` in a thread; rank 0's process "receives a signal" once `stop_after` steps are known.
  struct Outcome {
    std::vector<absl::StatusOr<WorkerRunResult>> results;
    std::vector<v1::Event> events;
    std::optional<absl::Status> ended;
    int skipped = 0;                  // steps, from rank 0's metrics
    std::vector<std::string> places;  // what each worker was told of its own
    std::vector<absl::Status> lost;   // and of the end of its run
    std::vector<v1::Event> seen;      // what the last worker saw of the run
    std::vector<double> Losses() const {
      std::vector<double> losses;
      for (const v1::Event& event : events) {
        if (event.has_step()) losses.push_back(event.step().loss());
      }
      return losses;
    }
  };
  Outcome Run(const v1::Config& config, std::vector<coordinator::CheckpointCandidate> candidates = {},
              int64_t stop_after = -1) {
    coordinator::FleetParameters parameters;
    parameters.config = config;
    parameters.version = "test";
    parameters.candidates = std::move(candidates);
    parameters.may_fall_back = true;
    MemoryFleet fleet(std::move(parameters));
    return RunIn(fleet, config, stop_after);
  }
  Outcome RunIn(MemoryFleet& fleet, const v1::Config& config, int64_t stop_after = -1) {
    int workers = config.parallel().workers();
    std::vector<absl::StatusOr<WorkerRunResult>> results(workers, absl::UnknownError("did not run"));
    std::vector<SkipCounter> metrics(workers);
    std::vector<std::string> places(workers);
    std::vector<absl::Status> lost(workers);
    std::vector<v1::Event> seen;
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back([&, i] {
        WorkerStatus status;
        WorkerRunOptions options;
        options.hello.set_build_id("b");
        options.hello.set_version("test");
        options.device = {.kind = config.device(), .threads = 1, .local_rank = i};
        if (config.device() == "cpu" && !measure_peak_) {
          options.create_device = [this, i](const device::DeviceOptions&) {
            return std::make_unique<KnownCpu>(i == 0 ? int64_t{1} << 40 : most_host_bytes_);
          };
        }
        options.stop_signal = [&] {
          return i == 0 && stop_after >= 0 && status.Heartbeat().step() >= stop_after ? 2 : 0;
        };
        options.placed = [&](int, uint64_t, const std::string& line) { places[i] = line; };
        options.lost = [&](const absl::Status& reason) { lost[i] = reason; };
        options.event = [&](const v1::Event& event) {
          if (i == workers - 1) seen.push_back(event);
        };
        std::unique_ptr<FleetSession> session = fleet.Connect();
        results[i] = RunWorker(options, *session, status, metrics[i], Clock::Real());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return {std::move(results), fleet.events(),  fleet.ended(),  metrics[0].skipped,
            std::move(places),  std::move(lost), std::move(seen)};
  }

  std::string directory_;
  bool measure_peak_ = false;
  int64_t most_host_bytes_ = int64_t{1} << 40;  // in one piece, of every rank but the first
};

TEST_F(WorkerRunTest, TrainsEvaluatesSavesAndReports) {
  measure_peak_ = true;
  Outcome outcome = Run(Config(2, 2));
  for (const auto& result : outcome.results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->step, 8);
    EXPECT_FALSE(result->stopped);
  }
  std::sort(outcome.places.begin(), outcome.places.end());
  EXPECT_EQ(outcome.places[1].substr(0, 13), "rank 1 of 2, ");
  EXPECT_NE(outcome.places[1].find(", collectives over ucx"), std::string::npos) << outcome.places[1];
  for (const absl::Status& lost : outcome.lost) EXPECT_EQ(lost, absl::OkStatus());
  EXPECT_EQ(outcome.Losses().size(), 8u);
  EXPECT_LT(outcome.Losses().back(), outcome.Losses().front());
  int evaluations = 0;
  for (const v1::Event& event : outcome.events) evaluations += event.has_evaluate();
  EXPECT_EQ(evaluations, 2);
  // A worker of any rank sees the same events of the run.
  ASSERT_EQ(outcome.seen.size(), 1u + 8 + 2);
  EXPECT_EQ(outcome.seen[0].start().world_size(), 2);
  EXPECT_EQ(outcome.seen[0].start().config().steps(), 8);
  EXPECT_EQ(outcome.seen[1].step().loss(), outcome.Losses()[0]);
  EXPECT_TRUE(outcome.seen.back().has_evaluate());
  ASSERT_TRUE(outcome.events.back().has_end());
  ASSERT_EQ(outcome.events.back().end().ranks_size(), 2);
  EXPECT_GT(outcome.events.back().end().ranks(1).device_memory().at("optimizer").current(), 0);
  EXPECT_EQ(checkpoint::ListCheckpoints(JoinPath(directory_, "checkpoints")).value().front().step, 8);
}

TEST_F(WorkerRunTest, AStoppedRunGoesOnToTheBitAtAnyWorldSizeAndStage) {
  std::vector<double> whole = Run(Config(2, 1)).Losses();
  ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
  Outcome first = Run(Config(2, 1), {}, /*stop_after=*/3);
  ASSERT_TRUE(first.results[1].ok()) << first.results[1].status();
  EXPECT_TRUE(first.results[1]->stopped);
  int64_t stopped_at = first.results[1]->step;
  EXPECT_EQ(stopped_at, 4);
  checkpoint::CommittedCheckpoint saved =
      checkpoint::ListCheckpoints(JoinPath(directory_, "checkpoints")).value().front();
  EXPECT_EQ(saved.step, stopped_at);
  for (int stage : {1, 3}) {
    Outcome second = Run(Config(2, stage), {{saved.path, saved.step}});
    ASSERT_TRUE(second.results[0].ok()) << second.results[0].status();
    std::vector<double> losses = first.Losses(), rest = second.Losses();
    losses.insert(losses.end(), rest.begin(), rest.end());
    EXPECT_EQ(losses, whole) << "stage " << stage;
    ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints/step-00000008")).ok());
  }
  Outcome third = Run(Config(3, 2), {{saved.path, saved.step}});
  ASSERT_TRUE(third.results[0].ok()) << third.results[0].status();
  for (size_t i = 0; i < third.Losses().size(); ++i) EXPECT_NEAR(third.Losses()[i] / whole[stopped_at + i], 1.0, 1e-5);
}

// On a machine with a GPU this is also a run whose steps are read one late, stopped between two.
TEST_F(WorkerRunTest, TheLossScaleIsCarriedOn) {
  for (const std::string& device : zero::UsableDevices()) {
    ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
    v1::Config config = Config(2, 2);
    config.set_device(device);
    config.set_precision("fp16");
    config.mutable_batch()->set_global_sequences(4);
    config.mutable_batch()->set_micro_sequences(2);
    config.mutable_evaluate()->set_batches(1);
    config.set_steps(6);
    std::vector<double> whole = Run(config).Losses();
    ASSERT_EQ(whole.size(), 6u);
    v1::LossScaleState end =
        checkpoint::ReadManifest(JoinPath(directory_, "checkpoints/step-00000006")).value().loss_scale();
    EXPECT_EQ(end.scale(), optim::kDynamicLossScaling.first);
    EXPECT_EQ(end.clean_steps(), 6);
    ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());

    Outcome first = Run(config, {}, /*stop_after=*/2);
    ASSERT_TRUE(first.results[0].ok()) << first.results[0].status();
    checkpoint::CommittedCheckpoint saved =
        checkpoint::ListCheckpoints(JoinPath(directory_, "checkpoints")).value().front();
    ASSERT_LT(saved.step, 6);
    EXPECT_EQ(checkpoint::ReadManifest(saved.path).value().loss_scale().clean_steps(), saved.step);
    std::vector<double> losses = first.Losses(), rest = Run(config, {{saved.path, saved.step}}).Losses();
    losses.insert(losses.end(), rest.begin(), rest.end());
    EXPECT_EQ(losses, whole) << device;
    EXPECT_EQ(
        checkpoint::ReadManifest(JoinPath(directory_, "checkpoints/step-00000006")).value().loss_scale().clean_steps(),
        6);
    ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints/step-00000006")).ok());

    // With a scale that no gradient survives, steps are skipped, and reported as skipped, until it has fallen far
    // enough.
    v1::CheckpointManifest manifest = checkpoint::ReadManifest(saved.path).value();
    manifest.mutable_loss_scale()->set_scale(optim::kDynamicLossScaling.most);
    ASSERT_TRUE(WriteFileAtomically(JoinPath(saved.path, "manifest.json"), checkpoint::ManifestText(manifest)).ok());
    Outcome skipping = Run(config, {{saved.path, saved.step}});
    ASSERT_TRUE(skipping.results[0].ok()) << skipping.results[0].status();
    end = checkpoint::ReadManifest(JoinPath(directory_, "checkpoints/step-00000006")).value().loss_scale();
    EXPECT_GT(end.skipped_steps(), 0);
    EXPECT_EQ(end.skipped_steps(), skipping.skipped);
    EXPECT_EQ(end.scale(), optim::kDynamicLossScaling.most / static_cast<double>(1 << skipping.skipped));
    EXPECT_EQ(skipping.Losses().size(), 6u - saved.step);
  }
}

TEST_F(WorkerRunTest, WithNoStepLeftWhatWasResumedIsSavedWhereItIsNotYet) {
  Run(Config(2, 2));
  checkpoint::CommittedCheckpoint saved =
      checkpoint::ListCheckpoints(JoinPath(directory_, "checkpoints")).value().front();
  Outcome here = Run(Config(2, 2), {{saved.path, saved.step}});
  ASSERT_TRUE(here.results[0].ok()) << here.results[0].status();
  EXPECT_TRUE(here.Losses().empty());
  EXPECT_EQ(here.events.size(), 2u);  // start, end
  v1::Config elsewhere = Config(3, 1);
  elsewhere.mutable_checkpoint()->set_dir(JoinPath(directory_, "elsewhere"));
  Outcome outcome = Run(elsewhere, {{saved.path, saved.step}});
  ASSERT_TRUE(outcome.results[2].ok()) << outcome.results[2].status();
  ASSERT_TRUE(outcome.events.back().has_end());
  checkpoint::CommittedCheckpoint again = checkpoint::ListCheckpoints(elsewhere.checkpoint().dir()).value().front();
  EXPECT_EQ(again.step, saved.step);
  EXPECT_EQ(again.manifest.files_size(), 3);
}

TEST_F(WorkerRunTest, ADamagedCheckpointGivesWayToTheOneBefore) {
  v1::Config config = Config(2, 2);
  config.mutable_checkpoint()->set_every_steps(4);
  Run(config);
  std::vector<checkpoint::CommittedCheckpoint> saved = checkpoint::ListCheckpoints(config.checkpoint().dir()).value();
  ASSERT_EQ(saved.size(), 2u);
  std::fstream file(JoinPath(saved[0].path, "rank-00001.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end);
  file.put('!');
  file.close();
  config.set_steps(9);
  config.mutable_checkpoint()->set_dir(JoinPath(directory_, "elsewhere"));
  Outcome outcome = Run(config, {{saved[0].path, saved[0].step}, {saved[1].path, saved[1].step}});
  ASSERT_TRUE(outcome.results[0].ok()) << outcome.results[0].status();
  EXPECT_EQ(outcome.Losses().size(), 5u);
  std::string notice;
  for (const v1::Event& event : outcome.events) notice += event.notice().message();
  EXPECT_THAT(notice, HasSubstr("rank-00001.safetensors"));
}

// An fsync that takes three heartbeat timeouts: the ranks train on up to their next save, their heartbeats continue,
// and nobody is lost.
TEST_F(WorkerRunTest, ASlowDiskHoldsUpNeitherStepsNorHeartbeats) {
  v1::Config config = Config(2, 2);
  config.mutable_checkpoint()->set_every_steps(4);
  coordinator::FleetParameters parameters;
  parameters.config = config;
  parameters.version = "test";
  FakeClock clock;
  MemoryFleet fleet(parameters, clock);
  FileCallLog files(directory_);
  files.HoldFsync("rank-00001.safetensors");
  Outcome outcome;
  std::thread run([&] { outcome = RunIn(fleet, config); });
  files.WaitUntilHeld();
  EXPECT_TRUE(fleet.WaitForStep(8));
  for (int quarter = 0; quarter < 12; ++quarter) {
    clock.Advance(config.restart().heartbeat_timeout_seconds() / 4);
    fleet.Beat();
  }
  EXPECT_FALSE(fleet.ended().has_value()) << *fleet.ended();
  EXPECT_THAT(checkpoint::ListCommittedSteps(config.checkpoint().dir()).value(), ::testing::IsEmpty());
  files.ReleaseFsync();
  run.join();
  for (const auto& result : outcome.results) EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(checkpoint::ListCommittedSteps(config.checkpoint().dir()).value(), ::testing::ElementsAre(4, 8));
}

// Storage that cannot keep up: the next save waits for the commit of the last one, and a stop is still obeyed.
TEST_F(WorkerRunTest, TrainingWaitsForACommitThatIsLate) {
  v1::Config config = Config(2, 2);
  config.mutable_checkpoint()->set_every_steps(1);
  coordinator::FleetParameters parameters;
  parameters.config = config;
  parameters.version = "test";
  MemoryFleet fleet(parameters);
  FileCallLog files(directory_);
  files.HoldFsync("rank-00000.safetensors");
  Outcome outcome;
  std::thread run([&] { outcome = RunIn(fleet, config); });
  files.WaitUntilHeld();
  EXPECT_TRUE(fleet.WaitForStep(2));
  fleet.Feed(coordinator::StopAsked{"enough"});
  files.ReleaseFsync();
  run.join();
  for (const auto& result : outcome.results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->stopped);
    EXPECT_LE(result->step, 3);  // step 2 was done, and step 3 may have carried the flag
  }
}

// A rank that cannot hold the snapshot has failed to save, as one with a full disk has: the run ends with one error
// that names it, and what was trained until then was trained.
TEST_F(WorkerRunTest, ASnapshotThatDoesNotFitEndsTheRunAsAFailedSave) {
  v1::Config config = Config(2, 2);
  most_host_bytes_ = 12 * model::ModelSpec::Create(config.model())->parameters() / 2 - 4096;
  const Outcome outcome = Run(config);
  EXPECT_EQ(outcome.Losses().size(), 8u);
  ASSERT_TRUE(outcome.ended.has_value());
  EXPECT_EQ(outcome.ended->code(), absl::StatusCode::kResourceExhausted) << *outcome.ended;
  EXPECT_THAT(std::string(outcome.ended->message()),
              HasSubstr("could not write its shard of step 8: host memory for the snapshot: no more memory"));
  int failures = 0;
  for (const v1::Event& event : outcome.events) failures += event.has_failure();
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(checkpoint::ListCommittedSteps(config.checkpoint().dir()).value(), ::testing::IsEmpty());
}

// A session whose coordinator assigns something else than the fleet's.
class ChangedAssignments : public FleetSession {
 public:
  ChangedAssignments(FleetSession& session, std::function<void(v1::Assignment*)> change)
      : session_(session), change_(std::move(change)) {}
  absl::Status Send(v1::WorkerMessage message) override { return session_.Send(std::move(message)); }
  absl::StatusOr<v1::CoordinatorMessage> Receive(double timeout_seconds) override {
    absl::StatusOr<v1::CoordinatorMessage> message = session_.Receive(timeout_seconds);
    if (message.ok() && message->has_assignment()) change_(message->mutable_assignment());
    return message;
  }
  void StartHeartbeats(std::function<v1::Heartbeat()> heartbeat) override {
    session_.StartHeartbeats(std::move(heartbeat));
  }
  void OnRegroup(std::function<void(uint64_t generation, absl::Status reason)> handler) override {
    session_.OnRegroup(std::move(handler));
  }
  void OnLost(std::function<void(absl::Status)> handler) override { session_.OnLost(std::move(handler)); }

 private:
  FleetSession& session_;
  const std::function<void(v1::Assignment*)> change_;
};

// A rank is lost in the middle of a step and another worker takes its place: the others stay, and all go on from the
// last commit with the bits of a run that nothing happened to.
TEST_F(WorkerRunTest, ALostRankIsReplacedAndNoBitChanges) {
  v1::Config config = Config(3, 2);
  config.mutable_checkpoint()->set_every_steps(3);
  const std::vector<double> whole = Run(config).Losses();
  ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
  config.mutable_restart()->set_max_per_rank(1);
  coordinator::FleetParameters parameters;
  parameters.config = config;
  MemoryFleet fleet(parameters);
  std::vector<absl::StatusOr<WorkerRunResult>> results(4, absl::UnknownError("did not run"));
  const auto run = [&](int i, FleetSession& session, WorkerStatus& status, std::function<int()> signal) {
    WorkerRunOptions options;
    options.hello.set_pid(i);
    options.create_device = [](const device::DeviceOptions&) { return std::make_unique<KnownCpu>(int64_t{1} << 40); };
    options.stop_signal = std::move(signal);
    NullMetrics metrics;
    results[i] = RunWorker(options, session, status, metrics, Clock::Real());
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      if (i == 3) {
        ASSERT_TRUE(fleet.WaitForLoss());
      }
      WorkerStatus status;
      auto session = fleet.Connect();
      const auto dies = [&]() -> int {
        if (i == 1 && status.Heartbeat().step() > 3 && fleet.LastCommit() > 0) session->Break();
        return 0;
      };
      run(i, *session, status, dies);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i : {0, 2, 3}) ASSERT_TRUE(results[i].ok()) << i << " " << results[i].status();
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kUnavailable) << results[1].status();
  std::map<int64_t, double> losses;
  std::vector<v1::RecoveryEvent> recoveries;
  for (const v1::Event& event : fleet.events()) {
    if (event.has_step()) losses[event.step().step()] = event.step().loss();
    if (event.has_recovery()) recoveries.push_back(event.recovery());
  }
  ASSERT_EQ(recoveries.size(), 1u);
  EXPECT_EQ(recoveries[0].generation(), 2u);
  EXPECT_GT(recoveries[0].resumed_step(), 0);
  EXPECT_THAT(recoveries[0].failed_ranks(), ::testing::ElementsAre(1));
  ASSERT_EQ(losses.size(), whole.size());
  for (const auto& [step, loss] : losses) EXPECT_EQ(loss, whole[step - 1]) << "step " << step;
}

TEST_F(WorkerRunTest, AnAssignmentThatDoesNotAddUpIsRefusedAndNamesTheRank) {
  const struct {
    absl::StatusCode code;
    const char* message;
    std::function<void(v1::Assignment*)> change;
  } kCases[] = {
      {absl::StatusCode::kFailedPrecondition, "the partition of the training state differs: the coordinator has 0123,",
       [](v1::Assignment* assignment) { assignment->set_partition_digest("0123"); }},
      {absl::StatusCode::kFailedPrecondition, "the partition of the training state differs",
       [](v1::Assignment* assignment) { assignment->mutable_owned(0)->set_flat_begin(1); }},
      {absl::StatusCode::kInternal, "the coordinator's assignment is invalid: rank must be 0 to 0, got 1",
       [](v1::Assignment* assignment) { assignment->set_rank(1); }},
  };
  for (const auto& [code, message, change] : kCases) {
    coordinator::FleetParameters parameters;
    parameters.config = Config(1, 2);
    MemoryFleet fleet(parameters);
    const std::unique_ptr<FleetSession> inner = fleet.Connect();
    ChangedAssignments session(*inner, change);
    WorkerRunOptions options;
    options.device = {.kind = "cpu", .threads = 1};
    WorkerStatus status;
    NullMetrics metrics;
    const absl::Status result = RunWorker(options, session, status, metrics, Clock::Real()).status();
    EXPECT_EQ(result.code(), code) << result;
    EXPECT_THAT(std::string(result.message()), HasSubstr(message));
    ASSERT_TRUE(fleet.ended().has_value());
    EXPECT_EQ(fleet.ended()->code(), code);
    EXPECT_THAT(std::string(fleet.ended()->message()), HasSubstr("rank 0 (host , pid 0) failed"));
  }
}

TEST_F(WorkerRunTest, AShorterContextIsTakenFromALongerOne) {
  Run(Config(1, 0));
  checkpoint::CommittedCheckpoint saved =
      checkpoint::ListCheckpoints(JoinPath(directory_, "checkpoints")).value().front();
  v1::Config shorter = Config(2, 3);
  shorter.mutable_model()->set_context(4);
  shorter.set_steps(10);
  shorter.mutable_checkpoint()->set_dir(JoinPath(directory_, "shorter"));
  Outcome outcome = Run(shorter, {{saved.path, saved.step}});
  ASSERT_TRUE(outcome.results[0].ok()) << outcome.results[0].status();
  EXPECT_EQ(outcome.Losses().size(), 2u);
  EXPECT_LT(outcome.Losses()[0], 5.5);  // an untrained model is at ln 256 = 5.545
}

TEST_F(WorkerRunTest, AnotherModelsCheckpointIsRefusedByName) {
  Run(Config(1, 0));
  checkpoint::CommittedCheckpoint saved =
      checkpoint::ListCheckpoints(JoinPath(directory_, "checkpoints")).value().front();
  v1::Config other = Config(1, 0);
  *other.mutable_model() = model::TestModelConfig(2, 32, 2, 8, 256);
  Outcome outcome = Run(other, {{saved.path, saved.step}});
  EXPECT_EQ(outcome.results[0].status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(outcome.results[0].status().message()),
              HasSubstr("model.hidden is 16 there and 32 in the configuration"));
  other = Config(1, 0);
  other.mutable_model()->set_heads(4);
  other.mutable_model()->set_kv_heads(4);
  EXPECT_THAT(std::string(Run(other, {{saved.path, saved.step}}).results[0].status().message()),
              HasSubstr("model.heads is 2 there and 4"));
}

TEST_F(WorkerRunTest, ABadFileOfOneRankEndsTheFleetWithItsReason) {
  v1::Config config = Config(2, 2);
  config.mutable_data()->set_train(0, JoinPath(directory_, "missing.txt"));
  Outcome outcome = Run(config);
  for (const auto& result : outcome.results) EXPECT_FALSE(result.ok());
  for (const absl::Status& lost : outcome.lost) EXPECT_FALSE(lost.ok());
  ASSERT_TRUE(outcome.ended.has_value());
  EXPECT_THAT(std::string(outcome.ended->message()), HasSubstr("missing.txt"));
}

}  // namespace
}  // namespace zerofleet::trainer
