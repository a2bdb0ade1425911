// What a run may resume from; see checkpoint_store.h.
#include "services/checkpoint_store.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"

namespace zerofleet {
namespace {

using testing::HasSubstr;

class CheckpointStoreTest : public testing::Test {
 protected:
  CheckpointStoreTest() { EXPECT_TRUE(RemoveTree(dir_).ok()); }
  ~CheckpointStoreTest() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }

  // A shard file of the length the manifest gives, and the manifest that the coordinator would commit.
  v1::CheckpointManifest Shard(int64_t step) {
    std::string path = StepDirectory(dir_, step);
    EXPECT_TRUE(CreateDirectories(path).ok());
    EXPECT_TRUE(WriteFileAtomically(JoinPath(path, "rank-00000.safetensors"), std::string(200, 'x')).ok());
    v1::CheckpointManifest manifest;
    manifest.set_format_version(1);
    manifest.set_step(step);
    manifest.set_generation(step / 10);
    manifest.set_world_size(1);
    manifest.mutable_config()->mutable_checkpoint()->set_dir(dir_);
    manifest.mutable_config()->mutable_checkpoint()->set_keep(2);
    v1::TensorEntry& tensor = *manifest.add_tensors();
    tensor.set_name("w");
    tensor.set_dtype("F32");
    tensor.add_shape(4);
    tensor.set_flat_end(4);
    manifest.mutable_loss_scale()->set_scale(1);
    v1::ShardFile& file = *manifest.add_files();
    file.set_name("rank-00000.safetensors");
    file.set_bytes(200);
    file.set_xxh3_128(std::string(32, '0'));
    file.add_ranges()->set_flat_end(4);
    return manifest;
  }

  const std::string dir_ = JoinPath(testing::TempDir(), "zerofleet_checkpoint_store_" + std::to_string(getpid()));
};

TEST_F(CheckpointStoreTest, NothingToResume) {
  absl::StatusOr<ResumePlan> plan = PlanResume("auto", dir_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->candidates.empty());
}

TEST_F(CheckpointStoreTest, CommittedOnesAreCandidatesNewestFirstAndTheOldestGo) {
  for (int64_t step : {10, 20, 30}) {
    absl::StatusOr<std::string> path = CommitCheckpoint(Shard(step), 1000 + step);
    ASSERT_TRUE(path.ok()) << path.status();
    EXPECT_EQ(*path, StepDirectory(dir_, step));
  }
  absl::StatusOr<ResumePlan> plan = PlanResume("auto", dir_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->candidates.size(), 2u);
  EXPECT_EQ(plan->candidates[0].step, 30);
  EXPECT_EQ(plan->candidates[1].step, 20);
  EXPECT_TRUE(plan->may_fall_back);
  EXPECT_EQ(plan->newest_generation, 3u);
  EXPECT_EQ(plan->newest_unix_seconds, 1030);
  EXPECT_TRUE(PlanResume("none", dir_)->candidates.empty());
}

TEST_F(CheckpointStoreTest, AGivenPathIsTheOnlyCandidate) {
  ASSERT_TRUE(CommitCheckpoint(Shard(10), 1).ok());
  ASSERT_TRUE(CommitCheckpoint(Shard(20), 2).ok());
  absl::StatusOr<ResumePlan> plan = PlanResume(StepDirectory(dir_, 10), dir_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->candidates.size(), 1u);
  EXPECT_EQ(plan->candidates[0].step, 10);
  EXPECT_FALSE(plan->may_fall_back);
  EXPECT_EQ(PlanResume(JoinPath(dir_, "step-00000099"), dir_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointStoreTest, ABadManifestIsANoticeOrTheEnd) {
  ASSERT_TRUE(CommitCheckpoint(Shard(10), 1).ok());
  Shard(20);
  std::string bad = JoinPath(StepDirectory(dir_, 20), "manifest.json");
  ASSERT_TRUE(WriteFileAtomically(bad, "{").ok());
  absl::StatusOr<ResumePlan> plan = PlanResume("auto", dir_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->candidates.size(), 1u);
  ASSERT_EQ(plan->notices.size(), 1u);
  EXPECT_THAT(plan->notices[0], HasSubstr(StepDirectory(dir_, 20)));
  ASSERT_TRUE(RemoveTree(StepDirectory(dir_, 10)).ok());
  absl::Status status = PlanResume("auto", dir_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(StepDirectory(dir_, 20)));
}

TEST(SetCheckpointAside, RenamesWithoutOverwriting) {
  std::string dir = JoinPath(testing::TempDir(), "zerofleet_set_aside_" + std::to_string(getpid()));
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(CreateDirectories(JoinPath(dir, "step-00000020")).ok());
    ASSERT_TRUE(SetCheckpointAside(JoinPath(dir, "step-00000020")).ok());
  }
  EXPECT_EQ(ListDirectory(dir).value(), (std::vector<std::string>{"step-00000020.damaged", "step-00000020.damaged-2"}));
  EXPECT_FALSE(SetCheckpointAside(JoinPath(dir, "step-00000030")).ok());
  ASSERT_TRUE(RemoveTree(dir).ok());
}

}  // namespace
}  // namespace zerofleet
