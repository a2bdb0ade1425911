// Whole lives of workers against the real coordinator core: to the end, stopped, resumed, refused.
#include "worker/trainer/worker_run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/model/model_testing.h"
#include "worker/optim/loss_scaling.h"
#include "worker/trainer/known_cpu_testing.h"
#include "worker/trainer/memory_fleet_testing.h"
#include "worker/trainer/null_metrics.h"
#include "worker/trainer/worker_run_testing.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::trainer {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_NE(outcome.places[1].find(", collectives over shared_memory"), std::string::npos) << outcome.places[1];
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

// A run begins with the weights of another run's end: at step 0, with the first samples, and not reported as a
// resumption.
TEST_F(WorkerRunTest, ARunBeginsWithTheWeightsOfAnother) {
  v1::Config config = Config(2, 2);
  const Outcome source = Run(config);
  config.set_init_from(checkpoint::StepDirectory(config.checkpoint().dir(), 8));
  config.mutable_checkpoint()->set_dir(JoinPath(directory_, "tuned"));
  const Outcome tuned = Run(config);
  ASSERT_TRUE(tuned.results[0].ok()) << tuned.results[0].status();
  EXPECT_FALSE(tuned.events.front().start().has_resumed_from());
  EXPECT_FALSE(tuned.seen.front().start().has_resumed_from());
  ASSERT_EQ(tuned.Losses().size(), 8u);
  EXPECT_LT(tuned.Losses().front(), source.Losses().front());
  config.set_init_from("/no/such");
  EXPECT_THAT(std::string(Run(config).ended->message()), HasSubstr(" could not load: init_from: /no/such"));
}

// On a machine with a GPU this also stops a run whose steps are collected one late.
TEST_F(WorkerRunTest, TheLossScaleIsCarriedOn) {
  for (const std::string& device : zero::UsableDevices()) {
    ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
    v1::Config config = Config(2, 2);
    config.set_device(device);
    config.set_precision("fp16");
    config.mutable_activation()->set_checkpointing("none");
    config.mutable_reduce()->set_every("micro_batch");
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

// A session whose coordinator changes the fleet's assignments.
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

// The stores of all workers, in one process.
class MemoryPeers : public SnapshotPeers {
 public:
  void Add(const std::string& address, std::shared_ptr<SnapshotStore> store) {
    absl::MutexLock lock(&mutex_);
    stores_[address] = std::move(store);
  }
  // Waits until `count` copies have arrived. They arrive while the ranks that sent them wait for another rank's next
  // step.
  void AwaitCopies(int count) {
    absl::MutexLock lock(&mutex_);
    auto arrived = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return copies_ >= count; };
    mutex_.Await(absl::Condition(&arrived));
  }

  absl::Status Put(const std::string& address, uint64_t, double, OutgoingSnapshot& snapshot) override {
    ReplicaSink copies(*StoreAt(address));
    IncomingSnapshot kept(copies);
    ZF_RETURN_IF_ERROR(Pass(snapshot, kept));
    absl::MutexLock lock(&mutex_);
    ++copies_;
    return absl::OkStatus();
  }
  absl::Status Get(const std::string& address, uint64_t, double, const v1::SnapshotShard& shard,
                   IncomingSnapshot& snapshot) override {
    OutgoingSnapshot served(*StoreAt(address), shard);
    return Pass(served, snapshot);
  }
  void EndViewsBefore(uint64_t) override {}

 private:
  std::shared_ptr<SnapshotStore> StoreAt(const std::string& address) {
    absl::MutexLock lock(&mutex_);
    return stores_.at(address);
  }
  static absl::Status Pass(OutgoingSnapshot& from, IncomingSnapshot& to) {
    while (true) {
      ZF_ASSIGN_OR_RETURN(const std::optional<v1::ReplicaPiece> piece, from.Next());
      if (!piece) return absl::OkStatus();
      ZF_RETURN_IF_ERROR(to.Take(*piece));
    }
  }

  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<SnapshotStore>> stores_ ABSL_GUARDED_BY(mutex_);
  int copies_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Four workers for three places: worker 1 has a fault, and worker 3 joins when a rank is lost.
struct Replacement {
  std::vector<absl::StatusOr<WorkerRunResult>> results{4, absl::UnknownError("did not run")};
  std::vector<v1::RecoveryEvent> recoveries;
  std::vector<std::string> notices;
  std::map<int64_t, double> losses, evaluations;  // by step: the last that was reported
};

// The time of the fault: once it returns true, worker 1 may end its session and its device may go wrong.
using FaultTime = std::function<bool()>;

// `breaks` ends worker 1's session at the fault; `leaves` is a signal to it instead, after three steps.
Replacement RunWithAReplacement(
    const v1::Config& config, bool breaks,
    const std::function<std::unique_ptr<device::Device>(int worker, FaultTime now)>& create_device,
    int most_inline_ranks = coordinator::kMostInlineRanks, bool leaves = false) {
  coordinator::FleetParameters parameters;
  parameters.config = config;
  parameters.most_inline_ranks = most_inline_ranks;
  MemoryFleet fleet(parameters);
  MemoryPeers peers;
  Replacement outcome;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      if (i == 3) {
        ASSERT_TRUE(fleet.WaitForLoss());
      }
      WorkerStatus status;
      auto session = fleet.Connect();
      // Waits until there is something to go back to; copies of a snapshot must have arrived, or the run might end
      // before them.
      const auto kept = [&] {
        if (config.checkpoint().replicate() == 0) return fleet.LastCommit() > 0;
        peers.AwaitCopies(3);
        return true;
      };
      const FaultTime now = [&, i] { return i == 1 && status.Heartbeat().step() > 3 && kept(); };
      WorkerRunOptions options;
      options.hello.set_pid(i);
      options.hello.set_service_address(absl::StrCat("worker ", i));
      options.peers = &peers;
      options.leaves_alone = leaves;
      peers.Add(options.hello.service_address(), options.snapshots);
      options.create_device = [&](const device::DeviceOptions&) { return create_device(i, now); };
      options.stop_signal = [&] {
        if (breaks && now()) session->Break();
        const bool is_time = leaves && status.Heartbeat().step() > 3;
        // Steps go on, but slowly: the run is far from done when worker 1's save is committed, whatever that takes.
        if (is_time && i == 0) fleet.WaitForLoss(absl::Milliseconds(50));
        return is_time && i == 1 ? 15 : 0;
      };
      NullMetrics metrics;
      outcome.results[i] = RunWorker(options, *session, status, metrics, Clock::Real());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const v1::Event& event : fleet.events()) {
    if (event.has_step()) outcome.losses[event.step().step()] = event.step().loss();
    if (event.has_evaluate()) outcome.evaluations[event.evaluate().step()] = event.evaluate().loss();
    if (event.has_notice()) outcome.notices.push_back(event.notice().message());
    if (event.has_recovery()) outcome.recoveries.push_back(event.recovery());
  }
  return outcome;
}

void ExpectTheBitsOf(const std::vector<double>& whole, const Replacement& outcome) {
  for (int i : {0, 2, 3}) ASSERT_TRUE(outcome.results[i].ok()) << i << " " << outcome.results[i].status();
  EXPECT_EQ(outcome.results[1].status().code(), absl::StatusCode::kUnavailable) << outcome.results[1].status();
  ASSERT_EQ(outcome.recoveries.size(), 1u);
  EXPECT_EQ(outcome.recoveries[0].generation(), 2u);
  EXPECT_GT(outcome.recoveries[0].resumed_step(), 0);
  EXPECT_THAT(outcome.recoveries[0].failed_ranks(), ::testing::ElementsAre(1));
  ASSERT_EQ(outcome.losses.size(), whole.size());
  for (const auto& [step, loss] : outcome.losses) EXPECT_EQ(loss, whole[step - 1]) << "step " << step;
}

// A rank is lost in the middle of a step and another worker takes its place: the others stay, and all go on from the
// last commit with the bits of an undisturbed run.
TEST_F(WorkerRunTest, ALostRankIsReplacedAndNoBitChanges) {
  v1::Config config = Config(3, 2);
  config.mutable_checkpoint()->set_every_steps(3);
  const std::vector<double> whole = Run(config).Losses();
  ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
  config.mutable_restart()->set_max_per_rank(1);
  ExpectTheBitsOf(whole, RunWithAReplacement(config, /*breaks=*/true, [](int, const FaultTime&) {
                    return std::make_unique<KnownCpu>(int64_t{1} << 40);
                  }));
}

// Told to go, worker 1 requests a checkpoint that was not planned, and leaves when it is committed; the run goes on
// from there with another worker.
TEST_F(WorkerRunTest, ALeavingRankSavesFirstAndNoBitChanges) {
  v1::Config config = Config(3, 2);
  config.set_steps(200);
  config.mutable_evaluate()->set_every_steps(0);
  const std::vector<double> whole = Run(config).Losses();
  ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
  config.mutable_restart()->set_max_per_rank(1);
  const Replacement outcome = RunWithAReplacement(
      config, /*breaks=*/false, [](int, const FaultTime&) { return std::make_unique<KnownCpu>(int64_t{1} << 40); },
      coordinator::kMostInlineRanks, /*leaves=*/true);
  EXPECT_EQ(outcome.results[1].status().code(), absl::StatusCode::kCancelled) << outcome.results[1].status();
  EXPECT_THAT(std::string(outcome.results[1].status().message()), HasSubstr(" is committed"));
  for (int i : {0, 2, 3}) ASSERT_TRUE(outcome.results[i].ok()) << i << " " << outcome.results[i].status();
  ASSERT_EQ(outcome.recoveries.size(), 1u);
  EXPECT_GE(outcome.recoveries[0].resumed_step(), 4);
  ASSERT_EQ(outcome.losses.size(), whole.size());
  for (const auto& [step, loss] : outcome.losses) EXPECT_EQ(loss, whole[step - 1]) << "step " << step;
}

// Between a commit and a recovery somebody puts another checkpoint in its place, which is valid by itself.
TEST_F(WorkerRunTest, AnotherCheckpointInThePlaceOfTheCommittedOneIsNotGoneOnFrom) {
  v1::Config config = Config(2, 2);
  config.mutable_evaluate()->set_every_steps(0);
  config.mutable_checkpoint()->set_every_steps(4);
  ASSERT_FALSE(Run(config).Losses().empty());
  std::vector<coordinator::CheckpointCandidate> candidates;
  for (const int64_t step : {8, 4}) {
    const std::string path = checkpoint::StepDirectory(config.checkpoint().dir(), step);
    std::string digest;
    ASSERT_TRUE(checkpoint::ReadManifest(path, &digest).ok());
    candidates.push_back({path, step, 0, 0, 0, digest});
  }
  v1::CheckpointManifest other = *checkpoint::ReadManifest(candidates.front().path);
  other.mutable_data_cursor()->set_samples_consumed(8);
  ASSERT_TRUE(
      WriteFileAtomically(JoinPath(candidates.front().path, checkpoint::kManifestName), checkpoint::ManifestText(other))
          .ok());
  config.set_steps(12);
  config.mutable_checkpoint()->set_every_steps(0);
  const Outcome outcome = Run(config, candidates);
  int64_t resumed = -1;
  std::vector<std::string> notices;
  for (const v1::Event& event : outcome.events) {
    if (event.has_start()) resumed = event.start().resumed_from();
    if (event.has_notice()) notices.push_back(event.notice().message());
  }
  EXPECT_EQ(resumed, 4);
  EXPECT_THAT(notices, ::testing::Contains(HasSubstr("another checkpoint was put there since: it is of step 8 with")));
  EXPECT_EQ(outcome.Losses().size(), 8u);
}

// Nothing has been saved: the survivors return to what they have in memory, and the replacement gets its part from the
// rank that kept the copy. In stage 0 every rank needs all parts.
TEST_F(WorkerRunTest, ALostRankComesBackFromAPeersMemory) {
  for (int stage : {0, 2, 3}) {
    v1::Config config = Config(3, stage);
    config.set_steps(60);
    config.mutable_ema()->set_decay(0.9);
    config.mutable_evaluate()->set_every_steps(20);
    config.mutable_evaluate()->set_weights("ema");
    config.mutable_restart()->set_max_per_rank(1);
    const Outcome whole = Run(config);
    ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
    config.mutable_checkpoint()->set_snapshot_every_steps(2);
    config.mutable_checkpoint()->set_replicate(1);
    // In one of the runs the addresses of all ranks, and of the copies' keeper, are requested as in a large view.
    const int most_inline_ranks = stage == 2 ? 1 : coordinator::kMostInlineRanks;
    const auto create = [](int, const FaultTime&) { return std::make_unique<KnownCpu>(int64_t{1} << 40); };
    const Replacement replaced = RunWithAReplacement(config, /*breaks=*/true, create, most_inline_ranks);
    ExpectTheBitsOf(whole.Losses(), replaced);
    EXPECT_EQ(replaced.evaluations.size(), 3u);
    EXPECT_EQ(replaced.evaluations, whole.Evaluations()) << "of the average, stage " << stage;
    ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
  }
}

// A survivor's memory changes between the views, so it takes the copy that another rank has.
TEST_F(WorkerRunTest, ASurvivorWhoseMemoryHasChangedTakesItsCopy) {
  v1::Config config = Config(3, 2);
  config.set_steps(60);
  config.mutable_evaluate()->set_every_steps(0);
  config.mutable_restart()->set_max_per_rank(1);
  const std::vector<double> whole = Run(config).Losses();
  ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
  // A single snapshot, after step 1, so that no rank is lost between a survivor's snapshot and its copy.
  config.mutable_checkpoint()->set_snapshot_every_steps(2 * config.steps());
  config.mutable_checkpoint()->set_replicate(1);
  const auto create = [&](int worker, const FaultTime&) -> std::unique_ptr<device::Device> {
    if (worker == 2) return std::make_unique<ForgetfulCpu>();
    return std::make_unique<KnownCpu>(int64_t{1} << 40);
  };
  const Replacement outcome = RunWithAReplacement(config, /*breaks=*/true, create);
  ExpectTheBitsOf(whole, outcome);
  EXPECT_THAT(outcome.notices, ::testing::Contains(::testing::AllOf(HasSubstr("has changed since: its XXH3-128 is "),
                                                                    HasSubstr("; taking its copy from worker 0"))));
}

// A CPU whose memory changes by itself: when `now` holds and tokens come, it flips one bit of byte `place` of the
// device's last reservation.
class FaultyCpu : public KnownCpu {
 public:
  FaultyCpu(int64_t token_bytes, int64_t place, FaultTime now)
      : token_bytes_(token_bytes), place_(place), now_(std::move(now)) {}

  absl::StatusOr<std::unique_ptr<device::Reservation>> Reserve(int64_t bytes) override {
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Reservation> reservation, KnownCpu::Reserve(bytes));
    reserved_ = reservation->data();
    return reservation;
  }
  absl::StatusOr<std::unique_ptr<device::Reservation>> ReserveHost(int64_t bytes) override {
    std::byte* const reserved = reserved_;
    absl::StatusOr<std::unique_ptr<device::Reservation>> reservation = KnownCpu::ReserveHost(bytes);
    reserved_ = reserved;  // the CPU reserves both alike
    return reservation;
  }
  void Copy(device::Stream& stream, void* to, const void* from, int64_t bytes) override {
    KnownCpu::Copy(stream, to, from, bytes);
    if (bytes != token_bytes_ || done_ || !now_()) return;
    done_ = true;
    reserved_[place_] ^= std::byte{4};
  }

 private:
  const int64_t token_bytes_, place_;
  const FaultTime now_;
  std::byte* reserved_ = nullptr;
  bool done_ = false;
};

// A parameter of one rank's copy changes in silence: whichever check notices, the rank is named, evicted and replaced
// before the step counts.
TEST_F(WorkerRunTest, ARankWhoseBitsDifferIsReplacedAndNoBitChanges) {
  v1::Config config = Config(3, 0);
  config.mutable_checkpoint()->set_every_steps(3);
  const std::vector<double> whole = Run(config).Losses();
  config.mutable_restart()->set_max_per_rank(1);
  const int64_t token_bytes = 2 * config.batch().micro_sequences() * config.model().context() * 4;
  const struct {
    int64_t every_steps, replay_every_steps;
    const char* cause;
  } kCases[] = {{1, 0, "rank 1 disagrees with the majority on the parameters"},
                {0, 1, "rank 1 disagrees with the majority on the gradients of a micro-batch"}};
  for (const auto& [every_steps, replay_every_steps, cause] : kCases) {
    ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok());
    config.mutable_integrity()->set_every_steps(every_steps);
    config.mutable_integrity()->set_replay_every_steps(replay_every_steps);
    const Replacement outcome = RunWithAReplacement(config, /*breaks=*/false, [&](int worker, FaultTime now) {
      return std::make_unique<FaultyCpu>(worker == 1 ? token_bytes : -1, /*place=*/2, std::move(now));
    });
    ExpectTheBitsOf(whole, outcome);
    ASSERT_EQ(outcome.recoveries.size(), 1u);
    EXPECT_THAT(outcome.recoveries[0].cause(), HasSubstr(cause));
  }
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
    EXPECT_THAT(std::string(fleet.ended()->message()), HasSubstr("rank 0 failed"));
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
