// Which directories count as checkpoints, and what may be removed.
#include "worker/checkpoint/catalog.h"

#include <cerrno>

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
  EXPECT_TRUE(IsCommitted(directory_, 100));
  EXPECT_FALSE(IsCommitted(directory_, 300));
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

TEST_F(CatalogTest, TheManifestGoesFirst) {
  Save(1, 1);
  FileCallLog log(directory_);
  log.FailFsync("step-00000001", EIO);
  EXPECT_FALSE(RemoveCheckpoint(directory_, 1).ok());
  EXPECT_THAT(ListDirectory(StepDirectory(directory_, 1)).value(), ElementsAre("rank-00000.safetensors"));
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
