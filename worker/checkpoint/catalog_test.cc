// Which directories count as checkpoints, what commits one, and what pruning may remove.
#include "worker/checkpoint/catalog.h"

#include "gmock/gmock.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet {
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
  EXPECT_THAT(problems[1].reason, HasSubstr("its manifest is of step 1"));
}

TEST_F(CatalogTest, CommitChecksWhatItCommits) {
  std::string step_dir = StepDirectory(directory_, 7);
  v1::CheckpointManifest manifest = WriteShards(step_dir, 7, 2);
  v1::CheckpointManifest wrong = manifest;
  wrong.mutable_files(1)->set_bytes(manifest.files(1).bytes() + 1);
  EXPECT_EQ(CommitManifest(step_dir, wrong).code(), absl::StatusCode::kDataLoss);
  wrong.mutable_files(1)->set_name("rank-00009.safetensors");
  EXPECT_EQ(CommitManifest(step_dir, wrong).code(), absl::StatusCode::kNotFound);
  wrong.clear_tensors();
  EXPECT_EQ(CommitManifest(step_dir, wrong).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Steps(), IsEmpty());
  EXPECT_TRUE(CommitManifest(step_dir, manifest).ok());
  EXPECT_THAT(Steps(), ElementsAre(7));
  EXPECT_EQ(CommitManifest(step_dir, manifest).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CatalogTest, ACrashBeforeTheRenameLeavesNothingCommitted) {
  Save(1, 2);
  std::string step_dir = StepDirectory(directory_, 2);
  v1::CheckpointManifest manifest = WriteShards(step_dir, 2, 3);
  Overwrite(JoinPath(step_dir, "manifest.json.tmp"), ManifestText(manifest).substr(0, 100));
  EXPECT_THAT(Steps(), ElementsAre(1));
  // The next try, by a smaller fleet, commits over the remains.
  EXPECT_TRUE(CommitManifest(step_dir, WriteShards(step_dir, 2, 2)).ok());
  EXPECT_THAT(Steps(), ElementsAre(2, 1));
  EXPECT_TRUE(PruneCheckpoints(directory_, 1).ok());
  Save(3, 1);
  EXPECT_TRUE(PruneCheckpoints(directory_, 1).ok());
  EXPECT_THAT(ListDirectory(directory_).value(), ElementsAre("step-00000003"));
}

TEST_F(CatalogTest, PruningKeepsTheNewestAndWhatIsNotItsOwn) {
  for (int64_t step = 1; step <= 5; ++step) Save(step, 2);
  Overwrite(JoinPath(StepDirectory(directory_, 2), "notes.txt"), "mine");
  EXPECT_TRUE(PruneCheckpoints(directory_, 9).ok());
  EXPECT_THAT(Steps(), ElementsAre(5, 4, 3, 2, 1));
  EXPECT_TRUE(PruneCheckpoints(directory_, 2).ok());
  EXPECT_THAT(Steps(), ElementsAre(5, 4));
  EXPECT_THAT(ListDirectory(directory_).value(), ElementsAre("step-00000002", "step-00000004", "step-00000005"));
  EXPECT_THAT(ListDirectory(StepDirectory(directory_, 2)).value(), ElementsAre("notes.txt"));
  EXPECT_TRUE(PruneCheckpoints(directory_, 0).ok());
  EXPECT_THAT(Steps(), ElementsAre(5));
  EXPECT_TRUE(PruneCheckpoints(Path("missing"), 1).ok());
}

}  // namespace
}  // namespace zerofleet
