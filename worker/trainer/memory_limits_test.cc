// One line that says what is too little, by how much, and what would help.
#include "worker/trainer/memory_limits.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/plain_config_testing.h"

namespace zerofleet::trainer {
namespace {

constexpr int64_t kKiB = 1024;

memory::MemoryPlan SmallPlan() {
  using memory::Category;
  using memory::Space;
  return {.rows = {{Space::kDevice, Category::kParameters, "parameters", 3 * kKiB},
                   {Space::kDevice, Category::kGradients, "gradients", 1 * kKiB},
                   {Space::kHost, Category::kBuffers, "snapshot", 2 * kKiB, /*late=*/true}}};
}

// Two workers of stage 1, which hold all gradients, with one sequence each.
v1::Config RunOfTwo() {
  v1::Config config = PlainConfig();
  config.mutable_parallel()->set_workers(2);
  config.mutable_parallel()->set_zero_stage(1);
  config.mutable_batch()->set_global_sequences(2);
  config.mutable_batch()->set_micro_sequences(1);
  config.mutable_activation()->set_checkpointing("block");
  return config;
}

TEST(MemoryLimits, NoneIsNone) { EXPECT_TRUE(CheckMemoryLimits({}, SmallPlan()).ok()); }

TEST(MemoryLimits, ExactlyEnoughIsEnough) {
  v1::Config config;
  config.mutable_memory()->set_device_limit("4KiB");
  config.mutable_memory()->set_host_limit("2KiB");
  EXPECT_TRUE(CheckMemoryLimits(config, SmallPlan()).ok());
}

TEST(MemoryLimits, NameTheShortfallAndWhatHelps) {
  v1::Config config = RunOfTwo();
  config.mutable_memory()->set_device_limit("3KiB");
  EXPECT_EQ(
      CheckMemoryLimits(config, SmallPlan()).message(),
      "memory.device_limit: a worker needs 4.0 KiB of device memory (largest: parameters, 3.0 KiB), 1.0 KiB more "
      "than 3KiB; raise it, or use parallel.zero_stage: 3, or offload.optimizer: cpu, or activation.offload: cpu, "
      "or more parallel.workers");
  config.mutable_parallel()->set_tensor(2);
  EXPECT_THAT(std::string(CheckMemoryLimits(config, SmallPlan()).message()),
              testing::HasSubstr("or parallel.sequence: true, or activation.partition: true, or activation.offload"));
  config.mutable_parallel()->set_sequence(true);
  EXPECT_THAT(std::string(CheckMemoryLimits(config, SmallPlan()).message()),
              testing::HasSubstr("offload.optimizer: cpu, or activation.offload: cpu, or more"));
  config.mutable_memory()->set_device_limit("");
  config.mutable_memory()->set_host_limit("1.5KiB");
  config.mutable_offload()->set_optimizer("cpu");
  config.mutable_activation()->set_offload("cpu");
  config.mutable_checkpoint()->set_snapshot("memory");
  EXPECT_EQ(CheckMemoryLimits(config, SmallPlan()).message(),
            "memory.host_limit: a worker needs 2.0 KiB of host memory (largest: snapshot, 2.0 KiB), 512 B more than "
            "1.5KiB; raise it, or use checkpoint.snapshot: stream, or offload.optimizer: nvme with offload.dir, or "
            "offload.optimizer: none, or "
            "activation.offload: none, or more parallel.workers");
}

// A configuration changed as advised can be trained.
TEST(MemoryLimits, AdviseOnlyWhatGoesTogether) {
  v1::Config config = RunOfTwo();
  config.mutable_memory()->set_device_limit("3KiB");
  config.mutable_parallel()->set_zero_stage(0);
  config.mutable_activation()->set_checkpointing("none");
  EXPECT_THAT(std::string(CheckMemoryLimits(config, SmallPlan()).message()),
              testing::EndsWith("or use parallel.zero_stage: 3, or offload.optimizer: cpu with parallel.zero_stage: 2, "
                                "or activation.checkpointing: block, or more parallel.workers"));
  config.mutable_buffers()->set_bucket_bytes(65536);  // does not go together with offload
  EXPECT_THAT(std::string(CheckMemoryLimits(config, SmallPlan()).message()), Not(testing::HasSubstr("offload")));
}

}  // namespace
}  // namespace zerofleet::trainer
