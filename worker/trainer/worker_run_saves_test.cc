// Saves of whole runs: slow, late, failing, and failing to the end.
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/file_calls_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/model/spec.h"
#include "worker/trainer/worker_run_testing.h"

namespace zerofleet::trainer {
namespace {

using ::testing::HasSubstr;

// A file where the first view would make the directory of a save: no shard of it can be written.
std::string Blocked(const v1::Config& config, int64_t step) {
  return checkpoint::PartialDirectory(checkpoint::StepDirectory(config.checkpoint().dir(), step), 1);
}
void Block(const v1::Config& config, int64_t step) {
  ASSERT_TRUE(CreateDirectories(config.checkpoint().dir()).ok());
  ASSERT_TRUE(WriteFileAtomically(Blocked(config, step), "").ok());
}
std::vector<v1::SaveFailedEvent> FailedSaves(const std::vector<v1::Event>& events) {
  std::vector<v1::SaveFailedEvent> failed;
  for (const v1::Event& event : events) {
    if (event.has_save_failed()) failed.push_back(event.save_failed());
  }
  return failed;
}

// An fsync that takes three heartbeat timeouts: the ranks train on up to their next save, their heartbeats continue,
// and nobody is lost.
class SlowDisk : public WorkerRunTest, public testing::WithParamInterface<const char*> {};

TEST_P(SlowDisk, HoldsUpNeitherStepsNorHeartbeats) {
  v1::Config config = Config(2, 2);
  config.mutable_checkpoint()->set_every_steps(4);
  config.mutable_checkpoint()->set_snapshot(GetParam());
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

INSTANTIATE_TEST_SUITE_P(Snapshots, SlowDisk, testing::Values("memory", "stream"));

// The same fsync never ends: the rank is named, with the step, once its write has stood still for too long.
TEST_P(SlowDisk, IsNamedIfItHangs) {
  v1::Config config = Config(2, 2);
  config.mutable_checkpoint()->set_every_steps(4);
  config.mutable_checkpoint()->set_snapshot(GetParam());
  config.mutable_checkpoint()->set_stall_timeout_seconds(120);
  coordinator::FleetParameters parameters;
  parameters.config = config;
  FakeClock clock;
  MemoryFleet fleet(parameters, clock);
  FileCallLog files(directory_);
  files.HoldFsync("rank-00001.safetensors");
  std::thread run([&] { RunIn(fleet, config); });
  files.WaitUntilHeld();
  EXPECT_TRUE(fleet.WaitForShard(4, 0));
  EXPECT_TRUE(fleet.WaitForStep(8));
  double waited = 0;
  for (; waited <= 150 && !fleet.ended(); waited += 15) {
    fleet.Beat();
    clock.Advance(15);
  }
  EXPECT_GT(waited, 120);
  ASSERT_TRUE(fleet.ended().has_value());
  EXPECT_THAT(std::string(fleet.ended()->message()),
              ::testing::ContainsRegex("lost rank 1 .* its write of step 4 has made no progress for 120 s"));
  files.ReleaseFsync();
  run.join();
}

// Whatever a save is written from, losses and bytes are the same.
TEST_F(WorkerRunTest, AStreamedSaveHasTheBytesOfACopy) {
  std::vector<std::string> digests;
  std::vector<std::vector<double>> losses;
  for (const char* snapshot : {"memory", "stream"}) {
    v1::Config config = Config(3, 1);
    config.mutable_checkpoint()->set_every_steps(1);
    config.mutable_checkpoint()->set_snapshot(snapshot);
    config.mutable_checkpoint()->set_dir(JoinPath(directory_, snapshot));
    const Outcome outcome = Run(config);
    for (const auto& result : outcome.results) ASSERT_TRUE(result.ok()) << result.status();
    losses.push_back(outcome.Losses());
    std::string& digest = digests.emplace_back();
    for (int64_t step = 1; step <= config.steps(); ++step) {
      const std::string step_dir = checkpoint::StepDirectory(config.checkpoint().dir(), step);
      for (int rank = 0; rank < 3; ++rank) {
        digest += ReadSmallFile(JoinPath(step_dir, checkpoint::ShardFileName(rank)), 1 << 24).value();
      }
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_TRUE(digests[0] == digests[1]);
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

// One shard of one save cannot be written: nothing is left of that step, training goes on, and the next save works.
TEST_F(WorkerRunTest, ASaveThatFailsIsTriedAgainAtTheNext) {
  v1::Config config = Config(3, 2);
  config.mutable_checkpoint()->set_every_steps(2);
  Block(config, 4);
  const Outcome outcome = Run(config);
  for (const auto& result : outcome.results) ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(checkpoint::ListCommittedSteps(config.checkpoint().dir()).value(), ::testing::ElementsAre(2, 6, 8));
  const std::vector<v1::SaveFailedEvent> failed = FailedSaves(outcome.events);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].step(), 4);
  EXPECT_THAT(failed[0].message(), ::testing::ContainsRegex("rank [0-2].* could not write its shard of step 4: .*"
                                                            "rank-0000[0-2].safetensors: cannot create: Not a dir"));
  EXPECT_THAT(failed[0].message(), HasSubstr("; 2 other ranks failed as well; last committed checkpoint: step 2"));
  config.mutable_checkpoint()->set_dir(JoinPath(directory_, "elsewhere"));
  EXPECT_EQ(outcome.Losses(), Run(config).Losses());
}

// No later save makes up for the last one.
TEST_F(WorkerRunTest, TheLastSaveIsTriedAgain) {
  const v1::Config config = Config(2, 2);
  Block(config, 8);
  coordinator::FleetParameters parameters;
  parameters.config = config;
  MemoryFleet fleet(parameters);
  int failures = 0;
  fleet.on_discard = [&](const coordinator::DiscardSave&) {
    ++failures;
    if (failures == 2) RemoveOne(Blocked(config, 8)).IgnoreError();
  };
  const Outcome outcome = RunIn(fleet, config);
  for (const auto& result : outcome.results) ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(checkpoint::ListCommittedSteps(config.checkpoint().dir()).value(), ::testing::ElementsAre(8));
  EXPECT_EQ(FailedSaves(outcome.events).size(), 2u);
}

// A rank that cannot hold the snapshot fails to save, as one with a full disk does: at the end the run ends with one
// error that names it, and all steps up to then were trained.
TEST_F(WorkerRunTest, ASnapshotThatNeverFitsEndsTheRunWithItsLastSave) {
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
  EXPECT_EQ(FailedSaves(outcome.events).size(), 5u);
  EXPECT_THAT(std::string(outcome.ended->message()),
              HasSubstr("the last save was tried 5 times; no checkpoint was committed"));
  EXPECT_THAT(checkpoint::ListCommittedSteps(config.checkpoint().dir()).value(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace zerofleet::trainer
