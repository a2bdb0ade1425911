// Batch schedules and averaged weights: how they are read, what follows from them, what is refused.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/config/config.h"
#include "cli/config/config_text.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

constexpr char kLearning[] = "model: {preset: gpt2-124m}\ndata: {train: [a.txt]}\n";

absl::StatusOr<v1::Config> ParseLearning(const std::vector<std::string>& sets, const std::string& more = "") {
  std::vector<ConfigOverride> overrides;
  for (const std::string& set : sets) overrides.push_back({"--set", set});
  return ParseConfig(absl::StrCat(kLearning, more), "run.yaml", overrides, nullptr);
}

constexpr char kRampUp[] =
    "batch: {global_sequences: 8, schedule: [{from_step: 3, global_sequences: 16}, {from_step: 5, global_sequences: "
    "32}]}\n";

TEST(BatchScheduleConfig, IsReadAndReadsBack) {
  const absl::StatusOr<v1::Config> config = ParseLearning({"parallel.workers=2"}, kRampUp);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->batch().ShortDebugString(),
            "global_sequences: 8 micro_sequences: 4 schedule: 16 schedule: 32 schedule_steps: 3 schedule_steps: 5");
  const absl::StatusOr<v1::Config> again = ParseConfig(TextOf(*config), "complete.json", {}, nullptr);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->DebugString(), config->DebugString());
  // A schedule on the command line replaces the file's.
  const absl::StatusOr<v1::Config> other =
      ParseLearning({"batch.schedule=[{global_sequences: 4, from_step: 9}]"}, kRampUp);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->batch().ShortDebugString(), "global_sequences: 8 micro_sequences: 4 schedule: 4 schedule_steps: 9");
  EXPECT_EQ(ParseLearning({"batch.schedule=[]"}, kRampUp)->batch().schedule_steps_size(), 0);
}

TEST(BatchScheduleConfig, StepsFollowFromIt) {
  // 8 + 8 + 16 + 16 + 32 sequences of 1024 tokens, and one more.
  EXPECT_EQ(ParseLearning({absl::StrCat("tokens=", 80 * 1024)}, kRampUp)->steps(), 5);
  EXPECT_EQ(ParseLearning({absl::StrCat("tokens=", 80 * 1024 + 1)}, kRampUp)->steps(), 6);
  const auto of_epochs = [](const std::string& epochs) {
    return ParseConfig(absl::StrCat(kLearning, kRampUp), "run.yaml", {{"--set", absl::StrCat("epochs=", epochs)}},
                       [](const v1::Config&) -> absl::StatusOr<int64_t> { return 100; })
        ->steps();
  };
  EXPECT_EQ(of_epochs("0.8"), 5);
  EXPECT_EQ(of_epochs("1.12"), 6);
  EXPECT_EQ(of_epochs("1.13"), 7);
}

struct BadLearning {
  std::vector<std::string> sets;
  std::string message;
};

TEST(LearningConfig, IsRefusedInOneLine) {
  const std::string batches = "batch.schedule=[{from_step: 10, global_sequences: ";
  const std::vector<BadLearning> cases = {
      {{"batch.schedule=3"},
       "--set: batch.schedule: must be a list, such as [{from_step: 1000, global_sequences: 32}], "
       "got \"3\""},
      {{"batch.schedule=[32]"},
       "--set: batch.schedule[0]: must be {from_step: S, global_sequences: N} with two integers"},
      {{"batch.schedule=[{from_step: 10}]"},
       "--set: batch.schedule[0]: must be {from_step: S, global_sequences: N} with two integers"},
      {{"batch.schedule=[{from_step: 10, global_sequences: 1.5}]"},
       "--set: batch.schedule[0]: must be {from_step: S, global_sequences: N} with two integers"},
      {{"batch.schedule=[{from_step: 1, global_sequences: 32}]"},
       "--set: batch.schedule: entry 1: from_step must be > 1, the step that batch.global_sequences is of, and <= "
       "1e12, "
       "got 1"},
      {{"batch.schedule=[{from_step: 9, global_sequences: 32}, {from_step: 9, global_sequences: 64}]"},
       "--set: batch.schedule: entry 2: from_step must be > 9, the one before it, and <= 1e12, got 9"},
      {{batches + "0}]"}, "--set: batch.schedule: entry 1: global_sequences must be 1 to 1e9, got 0"},
      {{batches + "20}]", "parallel.workers=2", "batch.micro_sequences=8"},
       "--set: batch.schedule: 20 is not a multiple of parallel.workers x batch.micro_sequences = 2 x 8 = 16; 16 or 32 "
       "is"},
      {{"batch.schedule_steps=[4]"},
       "run.yaml: batch.schedule: must be {from_step: S, global_sequences: N} each, got 0 batches and 1 steps"},
      {{batches + "4}]", "parallel.workers=8", "reduce.order=samples", "batch.micro_sequences=2"},
       "--set: parallel.workers: a step has 2 micro-batches, too few for 8 workers; at most 2 can share it"},
      {{batches + "1000000000}]", "steps=1000000000000", "batch.micro_sequences=8"},
       "--set: steps: steps x batch.global_sequences x model.context = 1.0e+24 tokens; at most 4.0e+18 can be counted"},
      {{"ema.decay=1.5"}, "--set: ema.decay: must be 0 to 1, got 1.5"},
      {{"ema.decay=-0.1"}, "--set: ema.decay: must be 0 to 1, got -0.1"},
      {{"ema.decay=1"}, "--set: ema.decay: must be < 1, got 1: such an average never moves"},
      {{"ema.decay=nan"}, "--set: ema.decay: must be a number, got \"nan\""},
      {{"ema.start_step=-1"}, "--set: ema.start_step: must be 0 to 1000000000000, got -1"},
      {{"ema.start_step=5"}, "--set: ema.start_step: needs ema.decay, such as 0.999; or leave it out"},
      {{"evaluate.weights=ema"}, "--set: evaluate.weights: ema needs ema.decay, such as 0.999"},
      {{"optimizer.ema=0.9"}, "--set: optimizer.ema: unknown key; did you mean ema?"},
      {{"histograms.every_steps=-1"}, "--set: histograms.every_steps: must be 0 to 1000000000000, got -1"},
  };
  for (const BadLearning& bad : cases) {
    const absl::StatusOr<v1::Config> config = ParseLearning(bad.sets);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << bad.sets[0];
    EXPECT_EQ(std::string(config.status().message()), bad.message) << bad.sets[0];
  }
  std::string many;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&many, "{from_step: ", i + 2, ", global_sequences: 16},");
  EXPECT_EQ(ParseLearning({absl::StrCat("batch.schedule=[", many, "]")}).status().message(),
            "--set: batch.schedule: has 5000 entries; at most 1000 are allowed");
}

}  // namespace
}  // namespace zerofleet::cli
