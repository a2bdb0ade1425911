// What a commit checks, the order in which it becomes durable, and what a crash or an orphan leaves.
#include "worker/checkpoint/commit.h"

#include <cerrno>

#include "base/file_calls_testing.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CommitTest : public CheckpointTest {
 protected:
  std::string StepDir(int64_t step) const { return StepDirectory(directory_, step); }
  std::string Partial(int64_t step) const { return PartialDirectory(StepDir(step), 0); }
};

TEST_F(CommitTest, ADirectoryAppearsWholeAndIsNeverReplaced) {
  const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 2);
  EXPECT_THAT(ListDirectory(directory_).value(), ElementsAre(".step-00000007.generation-0.partial"));
  ASSERT_TRUE(CommitCheckpoint(StepDir(7), manifest).ok());
  EXPECT_THAT(ListDirectory(directory_).value(), ElementsAre("step-00000007"));
  EXPECT_THAT(ListDirectory(StepDir(7)).value(),
              ElementsAre("manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"));
  EXPECT_TRUE(VerifyCheckpoint(StepDir(7)).ok());
  absl::Status again = CommitCheckpoint(StepDir(7), WriteShards(StepDir(7), 7, 2));
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("never overwritten"));
  EXPECT_TRUE(VerifyCheckpoint(StepDir(7)).ok());
}

// Shards, then the manifest's bytes, then its name, then the directory's: each durable before the next.
TEST_F(CommitTest, EachStepIsDurableBeforeTheNext) {
  const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 1);
  FileCallLog log(directory_);
  ASSERT_TRUE(CommitCheckpoint(StepDir(7), manifest).ok());
  const std::string partial = ".step-00000007.generation-0.partial", text = partial + "/manifest.json";
  EXPECT_THAT(log.calls(),
              ElementsAre("uncache " + partial + "/rank-00000.safetensors", "fsync " + partial,
                          "write " + text + ".tmp", "fsync " + text + ".tmp", "rename " + text + ".tmp " + text,
                          "fsync " + partial, "rename " + partial + " step-00000007", "fsync ."));
}

TEST_F(CommitTest, AFailedSyncCommitsNothing) {
  const std::string partial = ".step-00000007.generation-0.partial";
  for (const std::string& name : {partial, partial + "/manifest.json.tmp"}) {
    const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 1);
    FileCallLog log(directory_);
    log.FailFsync(name, EIO);
    EXPECT_EQ(ExitCode(CommitCheckpoint(StepDir(7), manifest)), 3);
    EXPECT_FALSE(FileExists(StepDir(7)));
    ASSERT_TRUE(RemoveTree(Partial(7)).ok());
  }
  const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 1);
  FileCallLog log(directory_);
  log.FailFsync(".", EIO);
  EXPECT_FALSE(CommitCheckpoint(StepDir(7), manifest).ok());
  EXPECT_FALSE(FileExists(StepDir(7))) << "listed, though nobody hears of it";
}

// A disk that fails goes on failing.
TEST_F(CommitTest, ACommitThatCannotBeTakenBackIsNoneEither) {
  {
    FileCallLog log(directory_);
    const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 1);
    log.FailFsync(".", EIO);
    log.FailRename(".step-00000007.generation-0.partial", EIO);
    EXPECT_EQ(ExitCode(CommitCheckpoint(StepDir(7), manifest)), 3);
  }
  EXPECT_FALSE(IsCommitted(directory_, 7)) << "listed, though nobody hears of it";
  EXPECT_TRUE(CommitCheckpoint(StepDir(7), WriteShards(StepDir(7), 7, 1)).ok()) << "the next try";
  EXPECT_TRUE(VerifyCheckpoint(StepDir(7)).ok());
}

TEST_F(CommitTest, EveryShardIsReadAndCompared) {
  const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 2);
  const auto error = [&](const v1::CheckpointManifest& wrong) {
    absl::Status status = CommitCheckpoint(StepDir(7), wrong);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_FALSE(FileExists(StepDir(7)));
    return std::string(status.message());
  };
  v1::CheckpointManifest wrong = manifest;
  wrong.mutable_files(1)->set_bytes(manifest.files(1).bytes() + 1);
  EXPECT_THAT(error(wrong), HasSubstr("rank-00001.safetensors"));
  wrong = manifest;
  wrong.mutable_files(1)->set_xxh3_128(std::string(32, '0'));
  EXPECT_THAT(error(wrong), HasSubstr("corrupt: its XXH3-128 is"));
  wrong.clear_tensors();
  EXPECT_THAT(error(wrong), HasSubstr("tensors: empty"));
  const std::string shard = JoinPath(Partial(7), ShardFileName(0)), contents = Contents(shard);
  Overwrite(shard, std::string(contents.size(), 'x'));
  EXPECT_THAT(error(manifest), HasSubstr("rank-00000.safetensors"));
  ASSERT_TRUE(RemoveOne(shard).ok());
  EXPECT_THAT(error(manifest), HasSubstr("missing"));
  Overwrite(shard, contents);
  EXPECT_TRUE(CommitCheckpoint(StepDir(7), manifest).ok());
}

// A worker of a fleet that is gone wakes in its save: its generation's directory was never renamed, or already was.
TEST_F(CommitTest, AnOrphanCannotTouchWhatWasCommitted) {
  const std::string step_dir = Save(7, 2);
  const std::string before = Contents(JoinPath(step_dir, ShardFileName(0)));
  const std::vector<coordinator::PlacedRange> ranges =
      coordinator::PartitionMap(SmallSpec().units(), 2).StoredRanges(0);
  const std::vector<float> other(State(0, ranges).size(), 7.0f);
  for (uint64_t generation : {0, 1}) {
    auto written = WriteShard(PartialDirectory(step_dir, generation), 0, ranges, optim::Optimizers().front(),
                              {other, other, other});
    EXPECT_TRUE(written.ok()) << written.status();  // into a directory of its own
  }
  EXPECT_EQ(Contents(JoinPath(step_dir, ShardFileName(0))), before);
  EXPECT_TRUE(VerifyCheckpoint(step_dir).ok());
  EXPECT_EQ(ListPartials(directory_, 1).value().size(), 2u);
}

TEST_F(CommitTest, ACrashLeavesNothingCommittedAndNothingInTheWay) {
  const v1::CheckpointManifest manifest = WriteShards(StepDir(2), 2, 3);
  Overwrite(JoinPath(Partial(2), "manifest.json.tmp"), ManifestText(manifest).substr(0, 100));
  EXPECT_THAT(ListCheckpoints(directory_).value(), IsEmpty());
  ASSERT_TRUE(RemoveCheckpointFiles(Partial(2)).ok());
  EXPECT_THAT(ListDirectory(directory_).value(), IsEmpty());
  // What the first release, which wrote in place, left without a manifest.
  ASSERT_TRUE(CreateDirectory(StepDir(2)).ok());
  Overwrite(JoinPath(StepDir(2), ShardFileName(4)), "remains");
  EXPECT_TRUE(CommitCheckpoint(StepDir(2), WriteShards(StepDir(2), 2, 2)).ok());
  EXPECT_THAT(ListDirectory(StepDir(2)).value(),
              ElementsAre("manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"));
  // Somebody's own files are not removed for a checkpoint.
  ASSERT_TRUE(CreateDirectory(StepDir(3)).ok());
  Overwrite(JoinPath(StepDir(3), "notes.txt"), "mine");
  EXPECT_FALSE(CommitCheckpoint(StepDir(3), WriteShards(StepDir(3), 3, 2)).ok());
  EXPECT_EQ(Contents(JoinPath(StepDir(3), "notes.txt")), "mine");
}

}  // namespace
}  // namespace zerofleet::checkpoint
