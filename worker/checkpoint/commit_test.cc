// What a commit checks, the order in which it becomes durable, and what a crash or an orphaned worker leaves.
#include "worker/checkpoint/commit.h"

#include <cerrno>
#include <thread>

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
  // Commits `manifest` as step 7; before its last check another run's checkpoint appears there.
  absl::Status CommitAgainstAnother(const v1::CheckpointManifest& manifest, FileCallLog& log) {
    const std::string other = JoinPath(Path("elsewhere"), "step-00000007");
    EXPECT_TRUE(CreateDirectories(Path("elsewhere")).ok());
    EXPECT_TRUE(CommitCheckpoint(other, WriteShards(other, 7, 1)).ok());
    log.HoldFsync("manifest.json.tmp");
    absl::Status committed;
    std::thread committer([&] { committed = CommitCheckpoint(StepDir(7), manifest); });
    log.WaitUntilHeld();
    EXPECT_TRUE(Rename(other, StepDir(7)).ok());
    log.ReleaseFsync();
    committer.join();
    return committed;
  }
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

// Each becomes durable before the next: shards, the manifest's bytes, its name, the directory's name.
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

TEST_F(CommitTest, AStepDirectoryThatCannotBeLookedAtIsNotFree) {
  const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 1);
  FileCallLog log(directory_);
  log.FailStat("step-00000007", ESTALE);
  const absl::Status status = CommitCheckpoint(StepDir(7), manifest);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(StepDir(7) + ": cannot look at it: "));
  EXPECT_TRUE(IsDirectory(Partial(7)));
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
  EXPECT_FALSE(IsCommitted(directory_, 7).value()) << "listed, though nobody hears of it";
  EXPECT_TRUE(CommitCheckpoint(StepDir(7), WriteShards(StepDir(7), 7, 1)).ok()) << "the next try";
  EXPECT_TRUE(VerifyCheckpoint(StepDir(7)).ok());
}

// With two coordinators that both believe they hold the directory, neither may remove what the other has acknowledged.
TEST_F(CommitTest, AnothersCheckpointIsNeverReplaced) {
  const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 2);
  FileCallLog log(directory_);
  EXPECT_EQ(CommitAgainstAnother(manifest, log).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadManifest(StepDir(7))->world_size(), 1);
  EXPECT_TRUE(VerifyCheckpoint(StepDir(7)).ok());
}

// The other commits after the last check, so that only the rename itself can detect it.
TEST_F(CommitTest, TheRenameItselfReplacesNothing) {
  const std::string other = JoinPath(Path("elsewhere"), "step-00000007");
  for (const bool flags : {true, false}) {
    ASSERT_TRUE(CreateDirectories(Path("elsewhere")).ok());
    ASSERT_TRUE(CommitCheckpoint(other, WriteShards(other, 7, 1)).ok());
    const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 2);
    FileCallLog log(directory_);
    if (!flags) log.RefuseRenameFlags();
    const absl::Status committed =
        CommitCheckpoint(StepDir(7), manifest, {}, [&] { return Rename(other, StepDir(7)); });
    EXPECT_EQ(committed.code(), absl::StatusCode::kFailedPrecondition) << committed;
    EXPECT_THAT(std::string(committed.message()), HasSubstr("never overwritten"));
    EXPECT_TRUE(VerifyCheckpoint(StepDir(7)).ok());
    ASSERT_TRUE(RemoveTree(StepDir(7)).ok());
    ASSERT_TRUE(RemoveTree(Partial(7)).ok());
  }
}

TEST_F(CommitTest, WhoMayNotCommitDoesNot) {
  const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 1);
  FileCallLog log(directory_);
  EXPECT_EQ(CommitCheckpoint(StepDir(7), manifest, {}, [] { return absl::AbortedError("another does"); }).message(),
            "another does");
  EXPECT_FALSE(FileExists(StepDir(7)));
  EXPECT_EQ(log.calls().back(), "fsync .step-00000007.generation-0.partial") << "asked before the rename, and last";
}

// Over NFS a rename may succeed although the call fails: its answer is lost, and the repeated call finds nothing to
// rename.
TEST_F(CommitTest, ARenameWhoseAnswerIsLostHasSucceeded) {
  const std::string partial = ".step-00000007.generation-0.partial";
  for (const bool flags : {true, false}) {
    const v1::CheckpointManifest manifest = WriteShards(StepDir(7), 7, 2);
    FileCallLog log(directory_);
    if (!flags) log.RefuseRenameFlags();
    log.LoseRename(partial + "/manifest.json", ENOENT);
    log.LoseRename("step-00000007", ENOENT);
    const absl::Status committed = CommitCheckpoint(StepDir(7), manifest);
    EXPECT_TRUE(committed.ok()) << committed;
    EXPECT_TRUE(VerifyCheckpoint(StepDir(7)).ok());
    ASSERT_TRUE(RemoveTree(StepDir(7)).ok());
  }
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

// A worker of a lost fleet wakes up during its save: its generation's directory was never renamed, or already was.
TEST_F(CommitTest, AnOrphanCannotTouchWhatWasCommitted) {
  const std::string step_dir = Save(7, 2);
  const std::string before = Contents(JoinPath(step_dir, ShardFileName(0)));
  const std::vector<coordinator::PlacedRange> ranges =
      coordinator::PartitionMap(SmallSpec().units(), 2).StoredRanges(0);
  const std::vector<float> other(State(0, ranges).size(), 7.0f);
  for (uint64_t generation : {0, 1}) {
    auto written = WriteShard(PartialDirectory(step_dir, generation), 0, ranges, optim::Optimizers().front(),
                              {other, other, other});
    EXPECT_TRUE(written.ok()) << written.status();  // it writes into a directory of its own
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
  // An empty directory is no obstacle; a commit never removes one that is not empty.
  ASSERT_TRUE(CreateDirectory(StepDir(2)).ok());
  EXPECT_TRUE(CommitCheckpoint(StepDir(2), WriteShards(StepDir(2), 2, 2)).ok());
  for (const std::string& name : {ShardFileName(4), std::string("notes.txt")}) {
    ASSERT_TRUE(CreateDirectory(StepDir(3)).ok());
    Overwrite(JoinPath(StepDir(3), name), "mine");
    const absl::Status committed = CommitCheckpoint(StepDir(3), WriteShards(StepDir(3), 3, 2));
    EXPECT_EQ(committed.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(committed.message()), HasSubstr("step-00000003: is in the way of a commit"));
    EXPECT_EQ(Contents(JoinPath(StepDir(3), name)), "mine");
    ASSERT_TRUE(RemoveTree(StepDir(3)).ok());
    ASSERT_TRUE(RemoveTree(Partial(3)).ok());
  }
}

}  // namespace
}  // namespace zerofleet::checkpoint
