// The options of `bench step` become the run's configuration. An integration test covers the run itself.
#include "cli/commands/bench_step.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

class BenchStepTest : public testing::Test {
 protected:
  BenchStepTest() { EXPECT_TRUE(CreateDirectories(dir_).ok()); }
  ~BenchStepTest() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }

  const std::string dir_ = testing::TempDir() + "/bench_step_test_" + std::to_string(getpid());
};

TEST_F(BenchStepTest, EveryFlagReachesTheConfiguration) {
  StepBenchOptions options;
  options.preset = "gpt2-355m";
  options.precision = "fp32";
  options.device = "cpu";
  options.collectives = "ucx";
  options.context = 128;
  options.global_sequences = 24;
  options.micro_sequences = 4;
  options.vocab = 50304;
  options.workers = 3;
  options.zero_stage = 1;
  options.sets = {"model.layers=2", "seed=7"};
  const v1::Config config = StepBenchConfig(options, dir_).value();
  EXPECT_EQ(config.model().preset(), "gpt2-355m");
  EXPECT_EQ(config.model().vocab(), 50304);
  EXPECT_EQ(config.model().context(), 128);
  EXPECT_EQ(config.precision(), "fp32");
  EXPECT_EQ(config.device(), "cpu");
  EXPECT_EQ(config.collectives(), "ucx");
  EXPECT_EQ(config.batch().global_sequences(), 24);
  EXPECT_EQ(config.batch().micro_sequences(), 4);
  EXPECT_EQ(config.parallel().workers(), 3);
  EXPECT_EQ(config.parallel().zero_stage(), 1);
  EXPECT_EQ(config.data().format(), "tokens_u32");
  EXPECT_EQ(config.model().layers(), 2);
  EXPECT_EQ(config.seed(), 7u);
}

TEST_F(BenchStepTest, DataAreWrittenOfAValidConfigurationAndNeverWithoutBound) {
  StepBenchOptions options;
  options.preset = "gpt2-tiny";
  options.device = "cpu";
  options.global_sequences = -1;
  EXPECT_EQ(StepBenchConfig(options, dir_).status().message(),
            "--sequences: batch.global_sequences: must be 1 to 1000000000, got -1");
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/data"));
  options.global_sequences = 40'000;
  options.micro_sequences = 1;
  ASSERT_TRUE(StepBenchConfig(options, dir_).ok());
  EXPECT_EQ(std::filesystem::file_size(dir_ + "/data"), 1 << 24);
}

TEST_F(BenchStepTest, LeftOutSizesAreThePresets) {
  StepBenchOptions options;
  options.device = "cpu";
  EXPECT_EQ(StepBenchConfig(options, dir_).value().model().vocab(), 50257);
  EXPECT_EQ(StepBenchConfig(options, dir_).value().batch().micro_sequences(), 4);
  options.preset = "gpt2-tiny";  // its tokens are bytes
  EXPECT_EQ(StepBenchConfig(options, dir_).value().data().format(), "text");
  options.preset = "gpt2-huge";
  EXPECT_EQ(StepBenchConfig(options, dir_).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zerofleet::cli
