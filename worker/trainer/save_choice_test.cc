// What `checkpoint.snapshot` results in, and what that costs.
#include "worker/trainer/save_choice.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/model/model_testing.h"
#include "worker/zero/training_state.h"

namespace zerofleet::trainer {
namespace {

using zero::SaveFrom;

// A device that looks like a GPU to code that asks where states are.
class DistantDevice : public device::CpuDevice {
 public:
  DistantDevice() : device::CpuDevice(1) {}
  bool host_addressable() const override { return false; }
};

class SaveChoiceTest : public testing::Test {
 protected:
  SaveChoiceTest() {
    *config_.mutable_model() = model::TestModelConfig(2, 32, 2, 16, 64);
    config_.mutable_batch()->set_micro_sequences(2);
    config_.mutable_checkpoint()->set_every_steps(10);
    config_.mutable_checkpoint()->set_snapshot("auto");
  }
  SaveChoice Choose(const zero::ZeroOptions& options = {.stage = 2, .rank = 0, .world_size = 2}) {
    const model::ModelSpec spec = *model::ModelSpec::Create(config_.model());
    const auto model = *model::Model::Create(config_.model(), {device::DType::kF32, 2, 16}, device_);
    const zero::ZeroLayout layout(spec, options);
    stored_ = zero::TrainingState::StoredBytes(layout);
    return ChooseSaves(config_, *model, layout, distant_ ? static_cast<device::Device&>(distant_device_) : device_);
  }
  static int64_t Host(const SaveChoice& choice) { return choice.plan.Bytes(memory::Space::kHost); }

  v1::Config config_;
  bool distant_ = false;
  int64_t stored_ = 0;
  device::CpuDevice device_{1};
  DistantDevice distant_device_;
};

TEST_F(SaveChoiceTest, TheConfigurationSays) {
  config_.mutable_checkpoint()->set_snapshot("memory");
  const SaveChoice memory = Choose();
  EXPECT_EQ(memory.from, SaveFrom::kSnapshot);
  EXPECT_EQ(memory.reason, "");
  config_.mutable_checkpoint()->set_snapshot("stream");
  const SaveChoice stream = Choose();
  EXPECT_EQ(stream.from, SaveFrom::kStates);
  EXPECT_EQ(Host(memory) - Host(stream), stored_);
  for (const SaveChoice* choice : {&memory, &stream}) {
    EXPECT_EQ(choice->memory_bytes, stored_);
    EXPECT_EQ(choice->stream_bytes, 0);
  }
}

TEST_F(SaveChoiceTest, AutoIsMemoryWhereThereIsRoom) {
  EXPECT_STREQ(Choose().word(), "memory");
  const int64_t needed = Host(Choose());
  config_.mutable_memory()->set_host_limit(absl::StrCat(needed / 1024 + 1, "KiB"));
  EXPECT_STREQ(Choose().word(), "memory");
  EXPECT_EQ(Choose().reason, "a copy holds no update up, and memory.host_limit has room for it");
  config_.mutable_memory()->set_host_limit(absl::StrCat(needed / 1024 - 1, "KiB"));
  EXPECT_STREQ(Choose().word(), "stream");
  EXPECT_EQ(Choose().reason,
            absl::StrCat("with a copy the plan would exceed memory.host_limit, ", needed / 1024 - 1, "KiB"));
}

TEST_F(SaveChoiceTest, AutoIsStreamWhereNoUpdateFollows) {
  config_.mutable_checkpoint()->set_every_steps(0);
  EXPECT_STREQ(Choose().word(), "stream");
  EXPECT_EQ(Choose().reason, "no update follows the save at the end");
}

// Staging takes two buffers of at most 4 MiB; states that offload keeps in host memory need none.
TEST_F(SaveChoiceTest, WhatTheHostCannotReadIsStaged) {
  distant_ = true;
  config_.mutable_checkpoint()->set_snapshot("stream");
  const SaveChoice staged = Choose();
  EXPECT_EQ(staged.from, SaveFrom::kStagedStates);
  EXPECT_EQ(staged.stream_bytes, 2 * std::min(stored_, int64_t{4} << 20));
  EXPECT_EQ(Choose({.stage = 2, .rank = 0, .world_size = 2, .placement = zero::kStatesOnHost}).from, SaveFrom::kStates);
}

// A copy is assembled from several memories; states in a file, for instance, cannot be read while they are being
// written.
TEST_F(SaveChoiceTest, AutoIsMemoryWhereTheStatesAreNotInOneMemory) {
  config_.mutable_checkpoint()->set_every_steps(0);
  const SaveChoice half = Choose({.stage = 2,
                                  .rank = 0,
                                  .world_size = 2,
                                  .placement = {.residence = zero::StatePlacement::Residence::kHost, .fraction = 0.5}});
  EXPECT_STREQ(half.word(), "memory");
  EXPECT_EQ(half.reason, "the states are in two memories");
}

}  // namespace
}  // namespace zerofleet::trainer
