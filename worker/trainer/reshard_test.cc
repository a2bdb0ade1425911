// A checkpoint of any number of ranks in any stage is loaded by any other, without a conversion: there are 8 x 4 ways
// to write it and as many to read each, and every bit of every optimizer state and of the average of the weights must
// be the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/commit.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/same_model.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/trainer/checkpointer.h"
#include "worker/trainer/tensor_table.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::trainer {
namespace {

constexpr int kMostRanks = 5, kStages = 4;

// A fleet whose sizes none of the numbers of ranks divides.
zero::FleetSetup FleetOf(int stage, int ranks) {
  return {.model = model::TestModelConfig(2, 10, 2, 3, 13),
          .stage = stage,
          .world_size = ranks,
          .global_sequences = ranks,
          .ema_decay = 0.5};
}

v1::CheckpointManifest ManifestOfFleet(const zero::FleetSetup& setup, const model::ModelSpec& spec) {
  v1::CheckpointManifest manifest;
  manifest.set_format_version(checkpoint::kManifestFormatVersion);
  manifest.set_step(setup.stage * kMostRanks + setup.world_size);
  manifest.set_generation(1);
  v1::Config& config = *manifest.mutable_config();
  *config.mutable_model() = setup.model;
  config.mutable_parallel()->set_workers(setup.world_size);
  config.mutable_parallel()->set_zero_stage(setup.stage);
  config.mutable_parallel()->set_tensor(1);
  config.mutable_optimizer()->set_name(setup.optimizer);
  config.mutable_optimizer()->set_learning_rate(1e-3);
  config.mutable_optimizer()->set_beta1(0.9);
  config.mutable_optimizer()->set_beta2(0.95);
  config.mutable_optimizer()->set_epsilon(1e-8);
  config.mutable_schedule()->set_decay("constant");
  config.mutable_ema()->set_decay(setup.ema_decay);
  config.mutable_checkpoint()->set_keep(1);
  config.mutable_batch()->set_global_sequences(setup.global_sequences);
  config.mutable_batch()->set_micro_sequences(1);
  config.set_precision("fp32");
  config.set_steps(1000);
  SetTensorTable(spec, &manifest);
  manifest.mutable_data_cursor()->set_samples_consumed(manifest.step());
  manifest.mutable_loss_scale()->set_scale(1);
  manifest.mutable_random();
  manifest.set_world_size(setup.world_size);
  manifest.set_team(1);
  manifest.set_zero_stage(setup.stage);
  return manifest;
}

// A value that differs between any two vectors and places.
float StateValue(size_t vector, int64_t flat) {
  return std::bit_cast<float>(static_cast<uint32_t>(0x3f800000u + (vector << 20) + static_cast<uint64_t>(flat) * 7));
}

// Calls `visit` with each element of these ranges, its vector and its place in the flat space.
template <typename Visit>
void ForEachElement(const zero::TrainingState& state, const std::vector<coordinator::PlacedRange>& ranges,
                    Visit visit) {
  for (const coordinator::PlacedRange& range : ranges) {
    const optim::StateTensors at = state.At(range.offset);
    for (size_t vector = 0; vector < at.size(); ++vector) {
      float* const values = static_cast<float*>(at[vector].data);
      for (int64_t i = 0; i < range.elements(); ++i) visit(values[i], vector, range.flat_begin + i);
    }
  }
}

class ReshardTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(directory_).ok());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  // Commits a checkpoint that this many ranks write in this stage; returns its directory.
  std::string Write(int stage, int ranks) const {
    const zero::FleetSetup setup = FleetOf(stage, ranks);
    v1::CheckpointManifest manifest = ManifestOfFleet(setup, *model::ModelSpec::Create(setup.model));
    const std::string path = checkpoint::StepDirectory(directory_, manifest.step());
    const std::string partial = checkpoint::PartialDirectory(path, manifest.generation());
    std::vector<v1::ShardFile> files(static_cast<size_t>(ranks));
    zero::RunFleet(setup, [&](zero::TestRank& rank) {
      zero::TrainingState& state = rank.engine().state();
      ForEachElement(state, state.RangesToStore(),
                     [](float& value, size_t vector, int64_t flat) { value = StateValue(vector, flat); });
      Snapshot snapshot(zero::kSnapshotRow);
      snapshot.EnterView(zero::TrainingState::StoredBytes(rank.layout()), rank.host_arena());
      Checkpointer checkpointer(rank.layout().options().rank, rank.layout(), state, rank.device(), rank.stream(),
                                rank.host_arena(), snapshot, Clock::Real());
      absl::Notification done;
      const auto written = [&](const v1::ShardWritten& outcome) {
        ZF_CHECK(outcome.ok());
        files[static_cast<size_t>(rank.layout().options().rank)] = outcome.file();
        done.Notify();
      };
      ZF_CHECK(checkpointer.Save(partial, manifest, written).ok());
      done.WaitForNotification();
    });
    for (const v1::ShardFile& file : files) *manifest.add_files() = file;
    const auto committed = checkpoint::CommitCheckpoint(path, manifest);
    EXPECT_TRUE(committed.ok()) << committed;
    return path;
  }

  const std::string directory_ = JoinPath(testing::TempDir(), absl::StrCat("zerofleet_reshard_", getpid()));
};

TEST_F(ReshardTest, AnyFleetLoadsWhatAnyOtherHasWritten) {
  struct Checkpoint {
    std::string path;
    v1::CheckpointManifest manifest;
  };
  std::vector<Checkpoint> checkpoints;
  for (int stage = 0; stage < kStages; ++stage) {
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      const std::string path = Write(stage, ranks);
      const absl::StatusOr<v1::CheckpointManifest> manifest = checkpoint::ReadManifest(path);
      ASSERT_TRUE(manifest.ok()) << manifest.status();
      checkpoints.push_back({path, *manifest});
    }
  }
  ASSERT_EQ(checkpoints.size(), size_t{kStages * kMostRanks});
  std::mutex mutex;
  int64_t compared = 0, loads = 0;
  for (int stage = 0; stage < kStages; ++stage) {
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      zero::RunFleet(FleetOf(stage, ranks), [&](zero::TestRank& rank) {
        const zero::TrainingState& state = rank.engine().state();
        const std::vector<coordinator::PlacedRange> mine = state.RangesToLoad();
        for (const Checkpoint& from : checkpoints) {
          ForEachElement(state, mine, [](float& value, size_t, int64_t) { value = -1; });
          const absl::Status loaded = checkpoint::LoadRanges(
              from.path, from.manifest, checkpoint::StoredPlaces(rank.spec(), from.manifest, mine),
              [&](int vector, int64_t offset, std::span<const float> values) {
                std::ranges::copy(values, static_cast<float*>(state.vectors()[vector].Offset(offset).data));
                return absl::OkStatus();
              });
          int64_t differ = 0, elements = 0;
          ForEachElement(state, mine, [&](float& value, size_t vector, int64_t flat) {
            differ += std::bit_cast<uint32_t>(value) != std::bit_cast<uint32_t>(StateValue(vector, flat));
            ++elements;
          });
          const std::lock_guard<std::mutex> lock(mutex);
          EXPECT_TRUE(loaded.ok()) << loaded;
          EXPECT_EQ(differ, 0) << from.path << " in stage " << stage << " by " << ranks << " ranks";
          compared += elements;
          ++loads;
        }
      });
    }
  }
  // Every rank of every fleet has loaded every checkpoint: in stage 0 all of the states, in the others all together.
  const int64_t states = 4 * model::ModelSpec::Create(FleetOf(0, 1).model)->parameters();
  EXPECT_EQ(loads, int64_t{kStages} * kMostRanks * (kMostRanks + 1) / 2 * kStages * kMostRanks);
  EXPECT_EQ(compared, int64_t{kStages} * kMostRanks * states * (kMostRanks * (kMostRanks + 1) / 2 + 3 * kMostRanks));
}

// The vectors of an empty shard all begin at one place of its file.
TEST_F(ReshardTest, CommitsWhatAFleetWithARankThatOwnsNothingHasWritten) {
  const absl::StatusOr<v1::CheckpointManifest> manifest = checkpoint::ReadManifest(Write(1, 8));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(checkpoint::StoredElements(manifest->files(7)), 0);
}

}  // namespace
}  // namespace zerofleet::trainer
