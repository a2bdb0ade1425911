// The search: the fastest choice that fits; among equals the one that splits and moves least.
#include "cli/planner/pick.h"

#include <map>

#include "cli/config/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::set<std::string> kAll(std::begin(kPickedKeys), std::end(kPickedKeys));

v1::Config RunOf(const std::string& preset, int workers, int64_t sequences) {
  v1::Config config = DefaultConfig(preset).value();
  config.mutable_parallel()->set_workers(workers);
  config.mutable_batch()->set_global_sequences(sequences);
  config.mutable_batch()->set_micro_sequences(1);
  return config;
}

absl::StatusOr<Pick> PickOn(const v1::Config& config, const std::string& gpus, const std::string& memory,
                            const std::set<std::string>& open = kAll) {
  const Cluster cluster = ParseCluster({.gpus = gpus, .gpu_memory = memory}).value();
  return PickSettings(config, open, cluster);
}

TEST(Pick, TakesNothingAwayWhereEverythingFits) {
  const Pick pick = PickOn(RunOf("gpt2-124m", 1, 8), "1", "80GiB").value();
  EXPECT_EQ(pick.first.Name(), "stage 0, micro-batch 8");
  ASSERT_TRUE(pick.second);
  EXPECT_THAT(pick.reason, HasSubstr(pick.second->Name()));
  EXPECT_GT(pick.tried, pick.fitting / 2);
}

TEST(Pick, SplitsAndMovesWhatDoesNotFit) {
  const Pick split = PickOn(RunOf("gpt2-1558m", 8, 64), "8", "16GiB").value();
  EXPECT_GE(split.first.config.parallel().zero_stage(), 1);
  EXPECT_TRUE(split.first.estimate.need.fits());
  // 1.5B parameters take 24 GB of states on a lone device.
  const Pick moved = PickOn(RunOf("gpt2-1558m", 1, 8), "1", "16GiB").value();
  EXPECT_EQ(moved.first.config.offload().optimizer(), "cpu");
  const absl::Status none = PickOn(RunOf("gpt2-1558m", 1, 8), "1", "3GiB").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(none.message(), HasSubstr("nothing fits: even stage"));
}

TEST(Pick, IsNeverSlowerThanAnyOtherThatFits) {
  const v1::Config config = RunOf("gpt2-355m", 4, 16);
  const Pick pick = PickOn(config, "4", "12GiB").value();
  for (const int64_t stage : {0, 1, 2, 3}) {
    v1::Config fixed = config;
    fixed.mutable_parallel()->set_zero_stage(static_cast<int>(stage));
    std::set<std::string> open = kAll;
    open.erase("parallel.zero_stage");
    const absl::StatusOr<Pick> other = PickOn(fixed, "4", "12GiB", open);
    if (!other.ok()) continue;
    EXPECT_EQ(other->first.config.parallel().zero_stage(), stage);
    EXPECT_GE(pick.first.estimate.tokens_per_second * 1.006, other->first.estimate.tokens_per_second) << stage;
  }
}

// A key that is given may rule out an open key's default.
TEST(Pick, WhatIsGivenIsServed) {
  const std::vector<ConfigOverride> late = {{"--set", "offload.delayed_update.after_steps=40"}};
  const std::string text = "model: {layers: 2, hidden: 64, heads: 2, context: 32, vocab: 256}\ndata: {train: [a]}\n";
  EXPECT_FALSE(ParseConfig(text, "run.yaml", late).ok());
  const v1::Config config =
      ParseConfig(text, "run.yaml", late, {}, {std::begin(kPickedKeys), std::end(kPickedKeys)}).value();
  EXPECT_EQ(PickOn(config, "1", "8GiB").value().first.config.offload().optimizer(), "cpu");
  const absl::Status none = PickOn(config, "1", "8GiB", {"parallel.zero_stage"}).status();
  EXPECT_EQ(none.message(), "offload.delayed_update.after_steps: must be 0 without offload.optimizer: cpu, got 40");
}

// Keys that are not open may rule out some values of the open ones.
TEST(Pick, WhatCouldNotBeTrainedIsNotPicked) {
  v1::Config config = RunOf("gpt2-1558m", 1, 8);
  config.mutable_buffers()->set_bucket_bytes(1 << 20);
  const absl::Status none = PickOn(config, "1", "16GiB").status();  // buckets rule out offload
  EXPECT_THAT(none.message(), HasSubstr("nothing fits: even stage"));
  config = RunOf("gpt2-124m", 2, 8);
  config.mutable_parallel()->set_zero_stage(3);
  config.mutable_offload()->set_optimizer("cpu");
  config.mutable_offload()->set_parameters("cpu");
  const Pick pick = PickOn(config, "2", "80GiB").value();
  EXPECT_EQ(pick.first.config.parallel().zero_stage(), 3);
  for (const Choice& one : pick.finalists) EXPECT_EQ(one.config.offload().optimizer(), "cpu");
}

TEST(Pick, OnlyWhatIsNearTheFirstIsWorthARun) {
  const Pick pick = PickOn(RunOf("gpt2-355m", 4, 16), "4", "80GiB").value();
  ASSERT_GT(pick.finalists.size(), 1u);
  EXPECT_LE(pick.finalists.size(), 6u);
  const double fastest = pick.finalists[0].estimate.time.seconds();
  std::map<int64_t, int> of_degree;
  for (size_t i = 0; i < pick.finalists.size(); ++i) {
    const Choice& one = pick.finalists[i];
    EXPECT_FALSE(one.measured_seconds);
    EXPECT_LE(++of_degree[one.config.parallel().tensor()], 3);
    EXPECT_LE(one.estimate.time.seconds(), 1.5 * fastest);
    EXPECT_GE(one.estimate.time.seconds(), i > 0 ? pick.finalists[i - 1].estimate.time.seconds() : 0);
  }
  // With all ranks in one tensor group there is nothing for a stage to split.
  v1::Config one_group = RunOf("gpt2-355m", 4, 16);
  one_group.mutable_parallel()->set_tensor(4);
  std::set<std::string> open = kAll;
  open.erase("parallel.tensor");
  int without_offload = 0;
  const Pick in_one_group = PickOn(one_group, "4", "80GiB", open).value();
  for (const Choice& one : in_one_group.finalists) {
    if (one.config.offload().optimizer() == "none" && one.config.activation().checkpointing() == "none")
      ++without_offload;
  }
  EXPECT_EQ(without_offload, 1);
}

TEST(Pick, RunsDecide) {
  Pick pick = PickOn(RunOf("gpt2-124m", 2, 8), "2", "80GiB").value();
  const Choice stage_0 = pick.first;
  const auto of = [&](int stage, double seconds) {
    Choice choice = stage_0;
    choice.config.mutable_parallel()->set_zero_stage(stage);
    choice.measured_seconds = seconds;
    return choice;
  };
  pick.finalists = {of(0, 0.2), of(3, 0.1), of(2, 0.15)};
  DecideByRuns(pick);
  EXPECT_EQ(pick.first.config.parallel().zero_stage(), 3);
  EXPECT_EQ(pick.second->config.parallel().zero_stage(), 2);
  EXPECT_THAT(pick.reason, HasSubstr("100.0 ms a step in short runs; stage 2"));
  pick.finalists = {of(2, 0.1), of(1, 0.104), of(0, 0.106)};  // the last is slower by more than a tie
  DecideByRuns(pick);
  EXPECT_EQ(pick.first.config.parallel().zero_stage(), 1);
  EXPECT_EQ(pick.second->config.parallel().zero_stage(), 2);
  pick.finalists = {of(2, 0.1)};
  DecideByRuns(pick);
  EXPECT_FALSE(pick.second);
}

TEST(Pick, ChangesOnlyWhatIsOpen) {
  v1::Config config = RunOf("gpt2-124m", 2, 8);
  config.mutable_parallel()->set_zero_stage(3);
  config.mutable_batch()->set_micro_sequences(2);
  const std::set<std::string> open = {"activation.checkpointing"};
  const Pick pick = PickOn(config, "2", "80GiB", open).value();
  EXPECT_EQ(pick.first.config.parallel().zero_stage(), 3);
  EXPECT_EQ(pick.first.config.batch().micro_sequences(), 2);
  EXPECT_THAT(PickedSettings(pick.first.config, open), ElementsAre("activation.checkpointing=none"));
}

}  // namespace
}  // namespace zerofleet::cli
