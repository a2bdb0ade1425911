// Which directories count as checkpoints, and what may be removed.
#include "worker/checkpoint/catalog.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "base/file_calls_testing.h"
#include "gmock/gmock.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CatalogTest : public CheckpointTest {
 protected:
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    const std::vector<CommittedCheckpoint> committed = ListCheckpoints(directory_).value();
    for (const CommittedCheckpoint& checkpoint : committed) steps.push_back(checkpoint.step);
    return steps;
  }
};

TEST_F(CatalogTest, NamesSortByStep) {
  EXPECT_EQ(StepDirectory("checkpoints", 100), "checkpoints/step-00000100");
  EXPECT_EQ(StepDirectory("c", 1234567890), "c/step-1234567890");
}

TEST_F(CatalogTest, ListsCommittedNewestFirst) {
  EXPECT_THAT(ListCheckpoints(Path("missing")).value(), IsEmpty());
  for (int64_t step : {5, 100, 20}) Save(step, 2);
  WriteShards(StepDirectory(directory_, 300), 300, 2);  // never committed
  ASSERT_TRUE(CreateDirectory(StepDirectory(directory_, 400)).ok());
  EXPECT_TRUE(IsCommitted(directory_, 100).value());
  EXPECT_FALSE(IsCommitted(directory_, 300).value());
  ASSERT_TRUE(CreateDirectories(Path("other")).ok());
  ASSERT_TRUE(CreateDirectories(Path("step-12")).ok());
  EXPECT_THAT(Steps(), ElementsAre(100, 20, 5));
  EXPECT_EQ(ListCheckpoints(directory_).value()[0].path, StepDirectory(directory_, 100));
}

TEST_F(CatalogTest, BadManifestsAreSetApartWithTheirReason) {
  Save(1, 1);
  std::string torn = Save(2, 1), renamed = StepDirectory(directory_, 3);
  Overwrite(JoinPath(torn, kManifestName), "{");
  ASSERT_TRUE(CreateDirectories(renamed).ok());
  Overwrite(JoinPath(renamed, kManifestName), Contents(JoinPath(StepDirectory(directory_, 1), kManifestName)));
  std::vector<CheckpointProblem> problems;
  EXPECT_EQ(ListCheckpoints(directory_, &problems).value().size(), 1u);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].path, torn);
  EXPECT_THAT(problems[0].reason, HasSubstr("manifest.json: not valid JSON"));
  EXPECT_THAT(problems[1].reason, HasSubstr("is of step 1, but its directory is named for 3"));
}

// EIO and ESTALE do not say whether a file exists.
TEST_F(CatalogTest, AManifestThatCannotBeLookedAtIsNotAbsent) {
  Save(1, 1);
  const std::string newest = Save(2, 1);
  FileCallLog log(directory_);
  log.FailStat("step-00000002/manifest.json", ESTALE);
  const auto is_told = [&](const absl::Status& status) {
    return absl::IsResourceExhausted(status) && absl::StrContains(status.message(), newest + "/manifest.json: cannot");
  };
  EXPECT_TRUE(is_told(ReadManifest(newest).status()));
  EXPECT_TRUE(is_told(ListCheckpoints(directory_).status()));
  EXPECT_TRUE(is_told(ListCommittedSteps(directory_).status()));
  EXPECT_TRUE(is_told(IsCommitted(directory_, 2).status()));
  std::vector<CheckpointProblem> problems;
  EXPECT_EQ(ListCheckpoints(directory_, &problems).value().size(), 1u);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].path, newest);
  EXPECT_TRUE(problems[0].unreadable);
  log.FailStat(".", EIO);
  EXPECT_TRUE(absl::IsResourceExhausted(ListPartials(directory_, 9).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(NewestPartialGeneration(directory_).status()));
}

TEST_F(CatalogTest, WhatCannotBeLookedAtIsNotRemoved) {
  const std::string step_dir = Save(1, 1), leftover = StepDirectory(directory_, 2);
  ASSERT_TRUE(CreateDirectory(leftover).ok());
  Overwrite(JoinPath(leftover, "rank-00000.safetensors"), "shard");
  const std::vector<std::string> before = ListDirectory(step_dir).value();
  FileCallLog log(directory_);
  log.FailStat("step-00000001", EIO);
  EXPECT_TRUE(absl::IsResourceExhausted(RemoveCheckpoint(directory_, 1)));
  EXPECT_TRUE(absl::IsResourceExhausted(RemoveCheckpointFiles(step_dir)));
  EXPECT_EQ(ListDirectory(step_dir).value(), before);
  log.FailStat(".step-00000002.generation-0.partial/manifest.json", EIO);  // it may have got a manifest
  RemoveLeftovers(directory_, absl::Now() + absl::Hours(1));
  EXPECT_EQ(ListDirectory(leftover).value().size(), 1u);
}

TEST_F(CatalogTest, RemovingLeavesWhatIsNotACheckpoints) {
  for (int64_t step = 1; step <= 3; ++step) Save(step, 2);
  EXPECT_THAT(ListCommittedSteps(directory_).value(), ElementsAre(1, 2, 3));
  EXPECT_THAT(ListCommittedSteps(Path("missing")).value(), IsEmpty());
  Overwrite(JoinPath(StepDirectory(directory_, 2), "notes.txt"), "mine");
  EXPECT_TRUE(RemoveCheckpoint(directory_, 1).ok());
  EXPECT_TRUE(RemoveCheckpoint(directory_, 2).ok());
  EXPECT_TRUE(RemoveCheckpoint(directory_, 9).ok());
  EXPECT_THAT(Steps(), ElementsAre(3));
  EXPECT_THAT(ListDirectory(directory_).value(), ElementsAre("step-00000002", "step-00000003"));
  EXPECT_THAT(ListDirectory(StepDirectory(directory_, 2)).value(), ElementsAre("notes.txt"));
}

// The manifest is removed first where the directory has to stay.
TEST_F(CatalogTest, TheManifestGoesFirst) {
  Overwrite(JoinPath(Save(1, 1), "notes.txt"), "mine");
  FileCallLog log(directory_);
  log.FailFsync("step-00000001", EIO);
  EXPECT_FALSE(RemoveCheckpoint(directory_, 1).ok());
  EXPECT_THAT(ListDirectory(StepDirectory(directory_, 1)).value(), ElementsAre("notes.txt", "rank-00000.safetensors"));
}

TEST_F(CatalogTest, AnInterruptedRemovalIsCleanedUp) {
  Save(1, 2);
  const std::string apart = PartialDirectory(StepDirectory(directory_, 1), 0);
  {
    FileCallLog log(directory_);
    log.FailFsync(".", EIO);  // the rename is not durable
    EXPECT_FALSE(RemoveCheckpoint(directory_, 1).ok());
    EXPECT_THAT(log.calls(), ElementsAre("rename step-00000001 .step-00000001.generation-0.partial", "fsync ."));
  }
  EXPECT_EQ(ListDirectory(apart).value().size(), 3u);  // nothing is unlinked before the rename is durable
  EXPECT_THAT(Steps(), IsEmpty());
  EXPECT_THAT(ListPartials(directory_, 0).value(), ElementsAre(apart));
  // Nor is that directory in the way of the next removal, if the run saves the step again before any clean-up.
  ASSERT_TRUE(RemoveCheckpointFiles(apart).ok());
  Save(1, 2);
  ASSERT_TRUE(CreateDirectory(apart).ok());
  Overwrite(JoinPath(apart, "rank-00000.safetensors"), "left");
  EXPECT_TRUE(RemoveCheckpoint(directory_, 1).ok());
  EXPECT_THAT(ListDirectory(directory_).value(), IsEmpty());
}

// Earlier releases removed the manifest first, and the shards in place, and so left these.
TEST_F(CatalogTest, LeftoversOfAnEarlierReleaseAreRemoved) {
  for (int64_t step = 1; step <= 6; ++step) Save(step, 2);
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_TRUE(RemoveOne(JoinPath(StepDirectory(directory_, step), kManifestName)).ok());
  }
  Overwrite(JoinPath(StepDirectory(directory_, 2), "notes.txt"), "mine");
  ASSERT_TRUE(Rename(StepDirectory(directory_, 3), Path("kept")).ok());
  ASSERT_EQ(symlink(Path("kept").c_str(), StepDirectory(directory_, 3).c_str()), 0);
  // Two directories that a user is copying here: the last file, or the directory, has just changed.
  const absl::Time now = absl::Now(), soon = now + absl::Minutes(2);
  const auto touch = [](const std::string& path, absl::Time when) {
    const timespec at = absl::ToTimespec(when);
    const timespec times[] = {at, at};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  touch(JoinPath(StepDirectory(directory_, 4), "rank-00001.safetensors"), soon);
  touch(StepDirectory(directory_, 5), soon);
  RemoveLeftovers(directory_, now - absl::Minutes(1));
  EXPECT_TRUE(FileExists(StepDirectory(directory_, 1)));
  RemoveLeftovers(directory_, now + absl::Minutes(1));
  EXPECT_THAT(ListDirectory(directory_).value(),
              ElementsAre("kept", "step-00000002", "step-00000003", "step-00000004", "step-00000005", "step-00000006"));
  EXPECT_THAT(Steps(), ElementsAre(6));
  EXPECT_EQ(ListDirectory(StepDirectory(directory_, 2)).value().size(), 3u);
}

// A copy that becomes complete at the very moment of the removal.
TEST_F(CatalogTest, WhatTurnsOutToBeACheckpointIsPutBack) {
  const std::string step_dir = Save(1, 1), manifest = JoinPath(step_dir, kManifestName);
  const std::string contents = Contents(manifest);
  ASSERT_TRUE(RemoveOne(manifest).ok());
  FileCallLog log(directory_);
  log.HoldFsync(".");  // after the rename
  std::thread removes([&] { RemoveLeftovers(directory_, absl::Now() + absl::Minutes(1)); });
  log.WaitUntilHeld();
  Overwrite(JoinPath(PartialDirectory(step_dir, 0), kManifestName), contents);
  log.ReleaseFsync();
  removes.join();
  EXPECT_THAT(Steps(), ElementsAre(1));
  EXPECT_THAT(ListDirectory(directory_).value(), ElementsAre("step-00000001"));
}

TEST_F(CatalogTest, PartialDirectoriesAreKnownByTheirNames) {
  EXPECT_EQ(PartialDirectory("c/step-00000100", 7), "c/.step-00000100.generation-7.partial");
  EXPECT_EQ(PartialDirectory("imported/", 0), "./.imported.generation-0.partial");
  for (const char* name :
       {".step-00000005.generation-3.partial", ".step-00000006.generation-12.partial", ".step-5.generation-1.partial",
        ".step-00000005.generation-x.partial", ".step-00000005.generation-1", "step-00000005.generation-1.partial"}) {
    ASSERT_TRUE(CreateDirectory(Path(name)).ok());
  }
  EXPECT_EQ(NewestPartialGeneration(directory_).value(), 12u);
  EXPECT_EQ(NewestPartialGeneration(Path("missing")).value(), 0u);
  EXPECT_THAT(ListPartials(directory_, 11).value(), ElementsAre(Path(".step-00000005.generation-3.partial")));
  EXPECT_EQ(ListPartials(directory_, 12).value().size(), 2u);
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(CatalogTest, ALinkIsNotFollowedToRemoveWhatItPointsAt) {
  std::string elsewhere = Save(1, 1);
  ASSERT_EQ(symlink(elsewhere.c_str(), Path(".step-00000002.generation-1.partial").c_str()), 0);
  EXPECT_TRUE(RemoveCheckpointFiles(Path(".step-00000002.generation-1.partial")).ok());
  EXPECT_THAT(Steps(), ElementsAre(1));
}

}  // namespace
}  // namespace zerofleet::checkpoint
