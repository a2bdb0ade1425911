// Runs that diverge: they end, or go back and leave out the samples that led to the divergence.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/manifest.h"
#include "worker/data/sampler.h"
#include "worker/trainer/worker_run_testing.h"

namespace zerofleet::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 12, kSampleTokens = 8, kBadStep = 18, kSaveEvery = 5;

class WorkerRunDivergenceTest : public WorkerRunTest {
 protected:
  v1::Config RollbackConfig(int workers, int stage) const {
    v1::Config config = Config(workers, stage);
    config.mutable_evaluate()->set_every_steps(0);
    config.mutable_optimizer()->set_learning_rate(1e-2);
    config.set_steps(24);
    config.mutable_checkpoint()->set_every_steps(kSaveEvery);
    config.set_on_divergence("rollback");
    config.mutable_divergence()->set_spike_factor(1.5);
    config.mutable_divergence()->set_window_steps(4);
    config.mutable_divergence()->set_max_rollbacks(2);
    return config;
  }

  // Replaces every sample of this step by text unlike anything before it.
  void SpoilTheDataOfStep(int64_t step, const v1::Config& config) {
    const std::string path = JoinPath(directory_, "text.txt");
    std::string text = *ReadSmallFile(path, 1 << 20);
    const data::Sampler sampler(config.seed(), (static_cast<int64_t>(text.size()) - 1) / kSampleTokens);
    for (int64_t place = (step - 1) * kBatch; place < step * kBatch; ++place) {
      for (int64_t i = 0; i < kSampleTokens; ++i)
        text[sampler.Sample(place) * kSampleTokens + i] = static_cast<char>(130 + i);
    }
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  }

  Outcome RunFrom(const v1::Config& config, std::vector<coordinator::Rollback> rollbacks,
                  std::vector<coordinator::CheckpointCandidate> candidates = {}) {
    coordinator::FleetParameters parameters;
    parameters.config = config;
    parameters.version = "test";
    parameters.rollbacks = std::move(rollbacks);
    parameters.candidates = std::move(candidates);
    parameters.may_fall_back = true;
    MemoryFleet fleet(std::move(parameters));
    return RunIn(fleet, config);
  }

  void ForgetCheckpoints() { ASSERT_TRUE(RemoveTree(JoinPath(directory_, "checkpoints")).ok()); }

  static std::vector<v1::RollbackEvent> Rollbacks(const Outcome& outcome) {
    std::vector<v1::RollbackEvent> rollbacks;
    for (const v1::Event& event : outcome.events) {
      if (event.has_rollback()) rollbacks.push_back(event.rollback());
    }
    return rollbacks;
  }

  // The last loss reported for each step.
  static std::vector<double> Column(const Outcome& outcome) {
    std::vector<double> column;
    for (const v1::Event& event : outcome.events) {
      if (!event.has_step()) continue;
      column.resize(event.step().step());
      column.back() = event.step().loss();
    }
    return column;
  }
};

TEST_F(WorkerRunDivergenceTest, ASpikeIsLeftOutAsIfItHadBeenFromTheStart) {
  const v1::Config config = RollbackConfig(2, 2);
  SpoilTheDataOfStep(kBadStep, config);
  const Outcome outcome = RunFrom(config, {});
  for (const auto& result : outcome.results) ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<v1::RollbackEvent> rollbacks = Rollbacks(outcome);
  ASSERT_EQ(rollbacks.size(), 1u);
  EXPECT_EQ(rollbacks[0].step(), kBadStep);
  // The run went back to the newest save before the bad step that was committed by then.
  const int64_t loaded = rollbacks[0].resumed_step();
  EXPECT_EQ(loaded % kSaveEvery, 0);
  EXPECT_LT(loaded, kBadStep);
  EXPECT_EQ(rollbacks[0].first_sample(), loaded * kBatch);
  EXPECT_EQ(rollbacks[0].skipped_samples(), (kBadStep - loaded) * kBatch);
  EXPECT_THAT(rollbacks[0].cause(), HasSubstr("times the median of the last 4 steps"));
  for (const double loss : outcome.Losses()) EXPECT_LT(loss, 6.5);  // the step that diverged is not reported

  // In checkpoints committed after that, the data cursor has passed the samples that were left out.
  const std::string end = JoinPath(directory_, "checkpoints/step-00000024");
  EXPECT_EQ(checkpoint::ReadManifest(end)->data_cursor().samples_consumed(), (24 + kBadStep - loaded) * kBatch);
  const v1::CheckpointManifest later = *checkpoint::ReadManifest(JoinPath(directory_, "checkpoints/step-00000020"));
  EXPECT_EQ(later.data_cursor().samples_consumed(), (20 + kBadStep - loaded) * kBatch);

  // A run that resumes from there goes on in the same way without being told anything.
  ASSERT_TRUE(RemoveTree(end).ok());
  const Outcome resumed = RunFrom(config, {}, {{JoinPath(directory_, "checkpoints/step-00000020"), 20}});
  const std::vector<double> column = Column(outcome);
  EXPECT_EQ(resumed.Losses(), std::vector<double>(column.begin() + 20, column.end()));

  ForgetCheckpoints();
  const Outcome told = RunFrom(config, {{0, 0, loaded * kBatch, kBadStep * kBatch, "told"}});
  EXPECT_TRUE(Rollbacks(told).empty());
  EXPECT_EQ(told.Losses(), column);
}

// Which snapshots are whole when a step diverges depends on timing; what is left out must not.
TEST_F(WorkerRunDivergenceTest, SnapshotsInMemoryAreNotGoneBackTo) {
  v1::Config config = RollbackConfig(2, 3);
  SpoilTheDataOfStep(kBadStep, config);
  config.mutable_checkpoint()->set_snapshot_every_steps(1);
  const Outcome with = RunFrom(config, {});
  ASSERT_TRUE(with.results[0].ok()) << with.results[0].status();
  ASSERT_EQ(Rollbacks(with).size(), 1u);
  const int64_t loaded = Rollbacks(with)[0].resumed_step();
  EXPECT_EQ(loaded % kSaveEvery, 0) << "that was no commit's step";  // which of them had landed depends on timing too
  ForgetCheckpoints();
  config.mutable_checkpoint()->clear_snapshot_every_steps();
  EXPECT_EQ(Column(RunFrom(config, {{0, 0, loaded * kBatch, kBadStep * kBatch, "told"}})), Column(with));
}

TEST_F(WorkerRunDivergenceTest, ARunThatDoesNotDivergeKeepsItsBits) {
  v1::Config config = RollbackConfig(2, 1);
  const Outcome with = RunFrom(config, {});
  EXPECT_TRUE(Rollbacks(with).empty());
  ForgetCheckpoints();
  config.set_on_divergence("stop");
  config.clear_divergence();
  EXPECT_EQ(RunFrom(config, {}).Losses(), with.Losses());
}

// The same steps at the same places diverge whatever the data: the run ends, and says what it has tried.
TEST_F(WorkerRunDivergenceTest, WhatDivergesWithAnyDataEndsTheRun) {
  v1::Config config = RollbackConfig(2, 2);
  config.mutable_optimizer()->set_learning_rate(1e30);
  const Outcome outcome = RunFrom(config, {});
  ASSERT_TRUE(outcome.ended.has_value());
  EXPECT_EQ(outcome.ended->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(outcome.ended->message()), HasSubstr("going back 2 times has not helped"));
  EXPECT_THAT(std::string(outcome.ended->message()), HasSubstr("a lower optimizer.learning_rate"));
  const std::vector<v1::RollbackEvent> rollbacks = Rollbacks(outcome);
  ASSERT_EQ(rollbacks.size(), 2u);
  EXPECT_EQ(rollbacks[1].first_sample(), rollbacks[0].first_sample() + rollbacks[0].skipped_samples());
  for (const auto& result : outcome.results) EXPECT_FALSE(result.ok());
}

TEST_F(WorkerRunDivergenceTest, WithStopTheFirstStepThatDivergesEndsTheRun) {
  v1::Config config = RollbackConfig(2, 2);
  config.set_on_divergence("stop");
  config.mutable_optimizer()->set_learning_rate(1e30);
  const Outcome outcome = RunFrom(config, {});
  ASSERT_TRUE(outcome.ended.has_value());
  EXPECT_EQ(outcome.ended->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(outcome.ended->message()), HasSubstr("training has diverged; a lower"));
  EXPECT_TRUE(Rollbacks(outcome).empty());
}

}  // namespace
}  // namespace zerofleet::trainer
