// What `train` prints about its plan, what it refuses, and what it compares at the end.
#include "cli/planner/launch_plan.h"

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/config/config.h"
#include "cli/launcher/local_fleet.h"
#include "cli/planner/machine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/device.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

v1::Config WorkersOf(int workers) {
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.set_device("cpu");
  config.mutable_parallel()->set_workers(workers);
  config.mutable_batch()->set_micro_sequences(1);
  return WithMicroBatches(config, 1);
}

TEST(LaunchPlan, RefusesWhatAllWorkersTogetherCannotHave) {
  const v1::Config config = WorkersOf(3);
  const LaunchPlan launch = PlanLaunch(config).value();
  const PlannedMemory planned = PlannedOf(launch);
  int64_t rows = 0;
  for (const memory::MemoryRow& row : launch.plan.rows) rows += row.bytes;
  rows -= launch.plan.SharedBytes(memory::Space::kDevice);
  EXPECT_EQ(planned.reserved_bytes, rows);
  EXPECT_EQ(planned.process_bytes, rows + OutsideBytes(config));
  EXPECT_TRUE(CheckLaunch(config, launch, 3 * planned.process_bytes).ok());
  const absl::Status refused = CheckLaunch(config, launch, 3 * planned.process_bytes - 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("3 x "));
  v1::Config limited = config;
  limited.mutable_memory()->set_device_limit("1KiB");
  EXPECT_THAT(CheckLaunch(limited, launch, int64_t{1} << 50).message(), HasSubstr("memory.device_limit"));
}

// Operands are packed for bf16's instructions alone.
TEST(LaunchPlan, CountsPackedOperandsOfEachThread) {
  v1::Config config = WorkersOf(1);
  EXPECT_EQ(OutsideBytes(config),
            kCpuOutsideBytes + ThreadsPerWorker(1) * device::PackedOperandBytes(device::DType::kBF16));
  config.set_precision("fp32");
  EXPECT_EQ(OutsideBytes(config), kCpuOutsideBytes);
}

TEST(LaunchPlan, SaysWhatTakesTheMemory) {
  const v1::Config config = WorkersOf(2);
  std::string text = LaunchText(config, PlanLaunch(config).value(), 80);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(line.size(), 80u) << line;
  text = absl::StrReplaceAll(text, {{"\n      ", " "}});
  EXPECT_THAT(text, HasSubstr("stage 2 on 2 workers, bf16"));
  for (const char* const category :
       {"parameters ", "gradients ", "optimizer ", "activations ", "buffers ", " of it shared"}) {
    EXPECT_THAT(text, HasSubstr(category));
  }
}

}  // namespace
}  // namespace zerofleet::cli
