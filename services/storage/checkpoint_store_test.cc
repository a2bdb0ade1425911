// What a run may resume from, the notices about it, and commits that stay within their directory.
#include "services/storage/checkpoint_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/file_calls_testing.h"
#include "services/common/build_info.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::services {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckpointStoreTest : public checkpoint::CheckpointTest {
 protected:
  void SetUp() override {
    checkpoint::CheckpointTest::SetUp();
    config_.mutable_checkpoint()->set_dir(directory_);
    config_.mutable_checkpoint()->set_keep(2);
    Open();
  }
  void Open() {
    store_.reset();
    absl::StatusOr<std::unique_ptr<CheckpointStore>> store = CheckpointStore::Open(directory_, 2);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  absl::StatusOr<coordinator::CommittedStep> Commit(int64_t step) {
    v1::CheckpointManifest manifest = WriteShards(checkpoint::StepDirectory(directory_, step), step, 2);
    return store_->Commit(manifest, 1000 + step);
  }
  std::vector<int64_t> Steps() { return checkpoint::ListCommittedSteps(directory_).value(); }

  v1::Config config_ = SmallConfig();
  std::unique_ptr<CheckpointStore> store_;
};

TEST_F(CheckpointStoreTest, NothingToResume) {
  absl::StatusOr<ResumePlan> plan = PlanResume("auto", config_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->candidates.empty());
}

TEST_F(CheckpointStoreTest, AManifestSaysWhenItWasCommittedAndByWhom) {
  const absl::StatusOr<coordinator::CommittedStep> committed = Commit(10);
  ASSERT_TRUE(committed.ok()) << committed.status();
  const v1::CheckpointManifest manifest = checkpoint::ReadManifest(committed->path).value();
  EXPECT_EQ(manifest.committed_unix_seconds(), 1010);
  EXPECT_EQ(manifest.writer_version(), GetBuildInfo().version);
}

TEST_F(CheckpointStoreTest, CommittedOnesAreCandidatesNewestFirstAndTheOldestGo) {
  for (int64_t step : {10, 20, 30}) {
    absl::StatusOr<coordinator::CommittedStep> committed = Commit(step);
    ASSERT_TRUE(committed.ok()) << committed.status();
    EXPECT_EQ(committed->path, checkpoint::StepDirectory(directory_, step));
    EXPECT_THAT(committed->warnings, IsEmpty());
  }
  absl::StatusOr<ResumePlan> plan = PlanResume("auto", config_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->candidates.size(), 2u);
  EXPECT_EQ(plan->candidates[0].step, 30);
  EXPECT_EQ(plan->candidates[1].step, 20);
  EXPECT_TRUE(plan->may_fall_back);
  EXPECT_EQ(plan->newest_unix_seconds, 1030);
  EXPECT_TRUE(PlanResume("none", config_)->candidates.empty());
}

TEST_F(CheckpointStoreTest, TheBestIsKeptBesideThem) {
  const auto commit = [&](int64_t step, int64_t best) {
    v1::CheckpointManifest manifest = WriteShards(checkpoint::StepDirectory(directory_, step), step, 2);
    manifest.mutable_best()->set_step(best);
    manifest.mutable_best()->set_saved_step(best);
    EXPECT_TRUE(store_->Commit(manifest, 1000 + step).ok());
    return Steps();
  };
  commit(10, 10);
  commit(20, 10);
  commit(30, 10);
  EXPECT_THAT(commit(40, 10), testing::UnorderedElementsAre(10, 30, 40));
  EXPECT_THAT(commit(50, 50), testing::UnorderedElementsAre(40, 50));
  EXPECT_THAT(commit(60, 50), testing::UnorderedElementsAre(50, 60));
  // The save of step 65 failed.
  EXPECT_THAT(commit(70, 65), testing::UnorderedElementsAre(50, 60, 70));
  EXPECT_THAT(commit(80, 65), testing::UnorderedElementsAre(50, 70, 80));
  EXPECT_EQ(checkpoint::ReadManifest(checkpoint::StepDirectory(directory_, 80))->best().saved_step(), 50);
}

// A snapshot is taken before the save of its step begins, so a recovery from it forgets that save.
TEST_F(CheckpointStoreTest, TheBestIsKeptThoughTheRanksForgetIt) {
  const auto commit = [&](int64_t step, double loss) {
    v1::CheckpointManifest manifest = WriteShards(checkpoint::StepDirectory(directory_, step), step, 2);
    manifest.mutable_best()->set_saved_step(step);
    manifest.mutable_best()->set_saved_loss(loss);
    EXPECT_TRUE(store_->Commit(manifest, 1000 + step).ok());
    return checkpoint::ReadManifest(checkpoint::StepDirectory(directory_, step))->best().saved_step();
  };
  EXPECT_EQ(commit(10, 3.5), 10);
  EXPECT_EQ(commit(20, 3.75), 10);
  EXPECT_EQ(commit(30, 3.625), 10);
  EXPECT_EQ(commit(40, 3.25), 40);
  EXPECT_EQ(commit(50, 4), 40);
  EXPECT_THAT(Steps(), testing::UnorderedElementsAre(40, 50));
}

TEST_F(CheckpointStoreTest, WhatWorkersReadTheTokenizerFromIsKept) {
  ASSERT_TRUE(Commit(10).ok());
  store_->CarryTokenizer({}, checkpoint::StepDirectory(directory_, 10));
  for (const int64_t step : {20, 30, 40}) ASSERT_TRUE(Commit(step).ok());
  EXPECT_THAT(Steps(), testing::UnorderedElementsAre(10, 30, 40));
  store_->CarryTokenizer({}, Path("elsewhere/step-00000010/tokenizer.json"));
  ASSERT_TRUE(Commit(50).ok());
  EXPECT_THAT(Steps(), testing::UnorderedElementsAre(40, 50));
}

// Progress lets the coordinator tell a large commit from one that hangs.
TEST_F(CheckpointStoreTest, ACommitTellsHowMuchItHasRead) {
  EXPECT_EQ(store_->stored_bytes(), 0);
  ASSERT_TRUE(Commit(10).ok());
  const int64_t once = store_->stored_bytes();
  EXPECT_GT(once, 0);
  ASSERT_TRUE(Commit(20).ok());
  EXPECT_EQ(store_->stored_bytes(), 2 * once);
  EXPECT_TRUE(store_->Verify({checkpoint::StepDirectory(directory_, 20), 20, ""}).ok());  // reading counts, too
  EXPECT_EQ(store_->stored_bytes(), 3 * once);
}

TEST_F(CheckpointStoreTest, AGivenPathIsTheOnlyCandidate) {
  ASSERT_TRUE(Commit(10).ok());
  ASSERT_TRUE(Commit(20).ok());
  absl::StatusOr<ResumePlan> plan = PlanResume(checkpoint::StepDirectory(directory_, 10), config_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->candidates.size(), 1u);
  EXPECT_EQ(plan->candidates[0].step, 10);
  EXPECT_FALSE(plan->may_fall_back);
  EXPECT_EQ(PlanResume(Path("step-00000099"), config_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointStoreTest, ABadManifestIsANoticeOrTheEnd) {
  ASSERT_TRUE(Commit(10).ok());
  ASSERT_TRUE(CreateDirectory(checkpoint::StepDirectory(directory_, 20)).ok());
  Overwrite(JoinPath(checkpoint::StepDirectory(directory_, 20), "manifest.json"), "{");
  absl::StatusOr<ResumePlan> plan = PlanResume("auto", config_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->candidates.size(), 1u);
  EXPECT_THAT(plan->notices, ElementsAre(HasSubstr(checkpoint::StepDirectory(directory_, 20))));
  ASSERT_TRUE(RemoveTree(checkpoint::StepDirectory(directory_, 10)).ok());
  absl::Status status = PlanResume("auto", config_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(checkpoint::StepDirectory(directory_, 20)));
}

TEST_F(CheckpointStoreTest, AManifestThatCannotBeReadIsNotSetAside) {
  ASSERT_TRUE(Commit(10).ok());
  ASSERT_TRUE(Commit(20).ok());
  const std::string path = checkpoint::StepDirectory(directory_, 20) + "/manifest.json";
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 30), 0);  // larger than a manifest that would be read
  const absl::Status status = PlanResume("auto", config_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(), HasSubstr("checkpoint.dir: " + path));
}

TEST_F(CheckpointStoreTest, AnotherModelsCheckpointIsRefusedAndNothingIsSetAside) {
  ASSERT_TRUE(Commit(10).ok());
  config_.mutable_model()->set_heads(5);
  config_.mutable_model()->set_kv_heads(5);
  for (const std::string& resume : {std::string("auto"), checkpoint::StepDirectory(directory_, 10)}) {
    absl::Status status = PlanResume(resume, config_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.heads is 3 there and 5 in the configuration"));
  }
  EXPECT_TRUE(PlanResume("none", config_).ok());
}

TEST_F(CheckpointStoreTest, WhatGoesOnDifferentlyIsSaid) {
  ASSERT_TRUE(Commit(10).ok());
  EXPECT_THAT(PlanResume("auto", config_)->notices, IsEmpty());
  config_.set_steps(2000);
  EXPECT_THAT(PlanResume("auto", config_)->notices,
              ElementsAre("the learning rate jumps on resuming: at step 10 it is 0.0009998 with the checkpoint's "
                          "schedule (steps: 1000) and 0.0009999 with this configuration's (steps: 2000)"));
  config_.mutable_schedule()->set_decay("constant");
  config_.mutable_optimizer()->set_learning_rate(2e-3);
  EXPECT_THAT(PlanResume("auto", config_)->notices, ElementsAre(HasSubstr("and 0.002 with")));
  config_ = SmallConfig();
  config_.mutable_checkpoint()->set_dir(directory_);
  config_.mutable_model()->set_context(4);
  EXPECT_THAT(PlanResume("auto", config_)->notices,
              ElementsAre(HasSubstr("has a context of 7 and model.context is 4: the first 4 rows")));
}

// Rotary positions have no table, so the context may change either way.
TEST_F(CheckpointStoreTest, AnotherContextOfAFamilyWithoutATableIsTold) {
  v1::CheckpointManifest manifest = Manifest(10, 2);
  config_.mutable_model()->set_family("llama");
  for (const int64_t context : {4, 9}) {
    config_.mutable_model()->set_context(context);
    EXPECT_THAT(ResumeNotices(config_, "ckpt", manifest),
                ElementsAre(absl::StrCat("checkpoint ckpt has a context of 7 and model.context is ", context,
                                         ": sequences have ", context, " tokens from here on")));
  }
}

TEST_F(CheckpointStoreTest, ARunKeepsItsTeamOrSaysThatItDoesNot) {
  v1::CheckpointManifest manifest = Manifest(10, 2);
  manifest.set_team(8);
  EXPECT_THAT(ResumeNotices(config_, "ckpt", manifest), IsEmpty());
  config_.mutable_parallel()->set_team("8");
  EXPECT_THAT(ResumeNotices(config_, "ckpt", manifest), IsEmpty());
  config_.mutable_parallel()->set_team("4");
  EXPECT_THAT(
      ResumeNotices(config_, "ckpt", manifest),
      ElementsAre("checkpoint ckpt was written with teams of 8 ranks and parallel.team asks for teams of 4 ranks: "
                  "gradients are summed in another order from here on"));
  manifest.set_team(coordinator::kMostRanks);  // what a manifest without a team is read as
  EXPECT_THAT(ResumeNotices(config_, "ckpt", manifest),
              ElementsAre(HasSubstr("written with one team of all ranks and")));
  manifest.set_team(0);
  EXPECT_THAT(ResumeNotices(config_, "ckpt", manifest), IsEmpty());  // an import's: no run has summed yet
}

// The state says what this run has committed at a step; a run does not resume from another checkpoint there.
TEST_F(CheckpointStoreTest, AnotherCheckpointThanWasCommittedIsNotUsed) {
  coordinator::CoordinatorState state{1, 20, {}};
  for (int64_t step : {10, 20}) state.manifests.insert(state.manifests.begin(), {step, Commit(step)->digest});
  absl::StatusOr<ResumePlan> plan = PlanResume("auto", config_, state, "state");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->candidates.size(), 2u);
  EXPECT_EQ(plan->candidates.front().digest, state.manifests.front().digest);
  const std::string path = checkpoint::StepDirectory(directory_, 20);
  v1::CheckpointManifest manifest = *checkpoint::ReadManifest(path);
  manifest.set_writer_version("another");
  Overwrite(JoinPath(path, checkpoint::kManifestName), checkpoint::ManifestText(manifest));
  EXPECT_EQ(PlanResume("auto", config_)->candidates.front().step, 20);  // there is no state
  plan = PlanResume("auto", config_, state, "state");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->candidates.size(), 1u);
  EXPECT_EQ(plan->candidates.front().step, 10);
  EXPECT_THAT(plan->unreadable, ElementsAre(path));
  EXPECT_THAT(plan->notices, ElementsAre(AllOf(HasSubstr("another checkpoint was put there since"),
                                               HasSubstr(state.manifests.front().digest),
                                               HasSubstr("state/coordinator.json"), HasSubstr("--resume " + path))));
  // With an explicit --resume it is used.
  EXPECT_EQ(PlanResume(path, config_, state, "state")->candidates.front().step, 20);
}

// A commit whose answer was lost counts as failed. If its step or a later one diverges, the run goes back to before it,
// and its directory is still there at the next start.
TEST_F(CheckpointStoreTest, ACheckpointOfACourseThatWasGivenUpIsNotUsed) {
  coordinator::CoordinatorState state{1, 10, {}};
  for (int64_t step : {10, 20}) ASSERT_TRUE(Commit(step).ok());
  const std::string path = checkpoint::StepDirectory(directory_, 20);
  const int64_t consumed = checkpoint::ReadManifest(path)->data_cursor().samples_consumed();
  ASSERT_GT(consumed,
            checkpoint::ReadManifest(checkpoint::StepDirectory(directory_, 10))->data_cursor().samples_consumed());
  state.rollbacks = {
      {.step = 25, .resumed_step = 10, .first_sample = consumed, .end_sample = consumed + 50, .cause = "nan"}};
  EXPECT_EQ(PlanResume("auto", config_, state, "state")->candidates.front().step, 20);  // its samples end before those
  state.rollbacks.front().first_sample = consumed - 1;
  const absl::StatusOr<ResumePlan> plan = PlanResume("auto", config_, state, "state");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->candidates.size(), 1u);
  EXPECT_EQ(plan->candidates.front().step, 10);
  EXPECT_THAT(plan->unreadable, ElementsAre(path));
  EXPECT_THAT(plan->notices,
              ElementsAre(AllOf(HasSubstr(path), HasSubstr("left out since it went back from step 25 to step 10"),
                                HasSubstr("state/coordinator.json"))));
}

// A commit whose answer was lost counts as failed, and the step is saved again: the checkpoint that is there already is
// the same.
TEST_F(CheckpointStoreTest, AStepThatIsCommittedAlreadyWithTheSameBitsIsCommitted) {
  ASSERT_TRUE(Commit(10).ok());
  const std::string path = checkpoint::StepDirectory(directory_, 10);
  std::string before;
  ASSERT_TRUE(checkpoint::ReadManifest(path, &before).ok());
  v1::CheckpointManifest again = WriteShards(path, 10, 2);
  const absl::StatusOr<coordinator::CommittedStep> committed = store_->Commit(again, 5000);
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_EQ(committed->digest, before);
  EXPECT_THAT(ListDirectory(directory_).value(), testing::Not(testing::Contains(HasSubstr("partial"))));
  again = WriteShards(path, 10, 2);
  again.mutable_data_cursor()->set_samples_consumed(again.data_cursor().samples_consumed() + 1);
  const absl::Status another = store_->Commit(again, 6000).status();
  EXPECT_THAT(std::string(another.message()), HasSubstr("holds a committed checkpoint, which is never overwritten"));
}

// A volume claim that mounts empty, or with an older state of the directory.
TEST_F(CheckpointStoreTest, CommitsThatAreMissingAreMissed) {
  const coordinator::CoordinatorState state{1, 20, {}};
  absl::Status status = PlanResume("auto", config_, state, "state").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(absl::StrCat("checkpoint.dir: ", directory_, " holds no committed checkpoint")),
                    HasSubstr("committed step 20 there (state/coordinator.json)"), HasSubstr("--resume none")));
  ASSERT_TRUE(Commit(10).ok());
  status = PlanResume("auto", config_, state, "state").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  const std::string path = checkpoint::StepDirectory(directory_, 10);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("is of step 10, but this run has committed step 20"), HasSubstr("--resume " + path)));
  for (const std::string& meant : {std::string("none"), path}) {
    EXPECT_TRUE(PlanResume(meant, config_, state, "state").ok()) << meant;
  }
  // Checkpoints that are there, whole or not, are not missing.
  const std::string newest = checkpoint::StepDirectory(directory_, 20);
  ASSERT_TRUE(Commit(20).ok());
  EXPECT_TRUE(PlanResume("auto", config_, state, "state").ok());
  Overwrite(JoinPath(newest, checkpoint::kManifestName), "{");
  EXPECT_EQ(PlanResume("auto", config_, state, "state")->candidates.front().step, 10);
}

// A run that lost its state file must not take the generation of workers that may still write.
TEST_F(CheckpointStoreTest, AnUnfinishedSaveCountsForTheGenerationAndIsRemoved) {
  const std::string partial = checkpoint::PartialDirectory(checkpoint::StepDirectory(directory_, 30), 41);
  ASSERT_TRUE(CreateDirectory(partial).ok());
  Overwrite(JoinPath(partial, "rank-00000.safetensors"), "half");
  EXPECT_EQ(PlanResume("none", config_)->newest_generation, 41u);
  EXPECT_EQ(PlanResume("auto", config_)->newest_generation, 41u);
  store_->RemoveUnfinished(40);
  EXPECT_TRUE(FileExists(partial));
  store_->RemoveUnfinished(41);
  EXPECT_FALSE(FileExists(partial));
}

TEST_F(CheckpointStoreTest, TheDirectoryAndTheNumberKeptAreItsOwn) {
  ASSERT_TRUE(Commit(10).ok());
  v1::CheckpointManifest manifest = WriteShards(checkpoint::StepDirectory(directory_, 20), 20, 2);
  manifest.mutable_config()->mutable_checkpoint()->set_dir(Path("another"));
  manifest.mutable_config()->mutable_checkpoint()->set_keep(1);
  EXPECT_EQ(store_->Commit(manifest, 1).value().path, checkpoint::StepDirectory(directory_, 20));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  EXPECT_FALSE(FileExists(Path("another")));
}

TEST_F(CheckpointStoreTest, JunkIsNotCommitted) {
  v1::CheckpointManifest manifest = WriteShards(checkpoint::StepDirectory(directory_, 10), 10, 2);
  manifest.mutable_files(1)->set_xxh3_128(std::string(32, '0'));
  EXPECT_EQ(store_->Commit(manifest, 1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(CheckpointStoreTest, WhatCannotBeRemovedIsAWarningAndTheCommitStands) {
  ASSERT_TRUE(Commit(10).ok());
  const std::string manifest = JoinPath(checkpoint::StepDirectory(directory_, 10), "manifest.json");
  ASSERT_TRUE(RemoveOne(manifest).ok());
  ASSERT_TRUE(CreateDirectory(manifest).ok());  // not even root can unlink a directory that is not empty
  Overwrite(JoinPath(manifest, "x"), "x");
  ASSERT_TRUE(Commit(20).ok());
  absl::StatusOr<coordinator::CommittedStep> committed = Commit(30);
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_THAT(committed->warnings,
              ElementsAre(HasSubstr("the old checkpoint " + checkpoint::StepDirectory(directory_, 10) +
                                    " could not be removed: ")));
  EXPECT_TRUE(checkpoint::VerifyCheckpoint(checkpoint::StepDirectory(directory_, 30)).ok());
  // The warning comes once, not with every commit.
  EXPECT_THAT(Commit(40)->warnings, IsEmpty());
}

// A listing at every commit made the commits of a long run take longer and longer.
TEST_F(CheckpointStoreTest, PruningDoesNotListTheDirectoryAgain) {
  ASSERT_TRUE(Commit(10).ok());
  Save(5, 1);  // by another program
  ASSERT_TRUE(Commit(20).ok());
  EXPECT_THAT(Steps(), ElementsAre(5, 10, 20));
  Open();
  ASSERT_TRUE(Commit(30).ok());
  EXPECT_THAT(Steps(), ElementsAre(20, 30));
}

TEST_F(CheckpointStoreTest, OneRunHoldsADirectory) {
  absl::Status second = CheckpointStore::Open(directory_, 2).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second.message(), "checkpoint.dir: another run holds " + directory_ + "; use another directory");
  EXPECT_FALSE(store_->Renew().value());
  ASSERT_TRUE(RemoveTree(directory_).ok());
  EXPECT_EQ(CheckpointStore::Open(directory_, 2).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointStoreTest, ARemovedDirectoryIsMadeAnewAndKeepsWhatIsCommittedFromThenOn) {
  for (int64_t step : {10, 20}) ASSERT_TRUE(Commit(step).ok());
  ASSERT_TRUE(RemoveTree(directory_).ok());
  EXPECT_TRUE(store_->Renew().value());
  for (int64_t step : {30, 40}) ASSERT_TRUE(Commit(step).ok());
  EXPECT_THAT(Steps(), ElementsAre(30, 40));
}

// What a failed save and older generations left is removed to make room for the next save; what a newer generation
// writes stays.
TEST_F(CheckpointStoreTest, DiscardingRemovesThatSaveAndWhatIsOlder) {
  ASSERT_TRUE(Commit(10).ok());
  const auto partial = [this](int64_t step, uint64_t generation) {
    const std::string path = checkpoint::PartialDirectory(checkpoint::StepDirectory(directory_, step), generation);
    EXPECT_TRUE(CreateDirectory(path).ok());
    EXPECT_TRUE(WriteFileAtomically(JoinPath(path, "rank-00000.safetensors"), "shard").ok());
    EXPECT_TRUE(WriteFileAtomically(JoinPath(path, "manifest.json.tmp"), "torn").ok());
    return path;
  };
  const std::string failed = partial(20, 4), older = partial(15, 3), next = partial(25, 4), newer = partial(20, 5);
  store_->Discard({20, 4});
  EXPECT_FALSE(FileExists(failed));
  EXPECT_FALSE(FileExists(older));
  EXPECT_TRUE(FileExists(next));
  EXPECT_TRUE(FileExists(newer));
  EXPECT_THAT(Steps(), ElementsAre(10));
}

// If a lock holds only on its own node, another coordinator can begin, since nothing keeps it out.
class FencedStoreTest : public CheckpointStoreTest {
 protected:
  void TakeOver() {
    const auto other = DirectoryEpoch::Claim(directory_, 7, absl::UnixEpoch());
    ASSERT_TRUE(other.ok()) << other.status();
  }
  std::vector<std::string> Everything() {
    std::vector<std::string> names;
    const std::vector<std::string> listed = ListDirectory(directory_).value();
    for (const std::string& name : listed) {
      names.push_back(name);
      if (!IsDirectory(Path(name))) continue;
      const std::vector<std::string> files = ListDirectory(Path(name)).value();
      for (const std::string& file : files) names.push_back(JoinPath(name, file));
    }
    return names;
  }
};

TEST_F(FencedStoreTest, OneThatIsFencedOffCommitsNothing) {
  ASSERT_TRUE(Commit(10).ok());
  TakeOver();
  const absl::Status refused = Commit(20).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("another coordinator (host "), HasSubstr(absl::StrCat("pid ", getpid(), ")")),
                    HasSubstr("has taken over " + directory_ + " since 1970-01-01 00:00:00 UTC")));
  EXPECT_THAT(Steps(), ElementsAre(10));
  EXPECT_EQ(store_->Renew().status(), refused);
}

TEST_F(FencedStoreTest, OneThatIsFencedOffRemovesAndRenamesNothing) {
  ASSERT_TRUE(Commit(10).ok());
  for (const uint64_t generation : {3, 4}) {
    const std::string partial = checkpoint::PartialDirectory(checkpoint::StepDirectory(directory_, 20), generation);
    ASSERT_TRUE(CreateDirectory(partial).ok());
    Overwrite(JoinPath(partial, "rank-00000.safetensors"), "the other's");
  }
  TakeOver();
  const std::vector<std::string> before = Everything();
  store_->Discard({20, 4});
  store_->RemoveUnfinished(4);
  EXPECT_EQ(store_->SetAside(checkpoint::StepDirectory(directory_, 10)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Everything(), before);
}

// The directory is taken over between a commit and the pruning of older checkpoints.
TEST_F(FencedStoreTest, OneThatIsFencedOffPrunesNothing) {
  for (int64_t step : {10, 20}) ASSERT_TRUE(Commit(step).ok());
  absl::StatusOr<coordinator::CommittedStep> committed;
  {
    FileCallLog log(directory_);
    log.HoldFsync(".");  // the fsync after the commit's rename
    std::thread commits([&] { committed = Commit(30); });
    log.WaitUntilHeld();
    ASSERT_TRUE(FileExists(checkpoint::StepDirectory(directory_, 30)));
    TakeOver();
    log.ReleaseFsync();
    commits.join();
  }
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_THAT(committed->warnings, ElementsAre(HasSubstr("step-00000010 could not be removed: another coordinator (")));
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30));
}

TEST_F(FencedStoreTest, AnEpochFileThatIsGoneIsWrittenAnewAndOneThatIsNotUnderstoodIsLeft) {
  ASSERT_TRUE(RemoveOne(Path(kEpochName)).ok());
  EXPECT_EQ(Commit(10).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(store_->Renew().value());
  ASSERT_TRUE(Commit(20).ok());
  ASSERT_TRUE(RemoveTree(directory_).ok());
  EXPECT_TRUE(store_->Renew().value());
  ASSERT_TRUE(Commit(30).ok());
  Overwrite(Path(kEpochName), "{}");
  EXPECT_EQ(Commit(40).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store_->Renew().status().code(), absl::StatusCode::kDataLoss);
  store_.reset();
  const absl::Status status = CheckpointStore::Open(directory_, 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("checkpoint.dir: " + Path(kEpochName)), HasSubstr("move the file away")));
  EXPECT_EQ(Contents(Path(kEpochName)), "{}");
  EXPECT_THAT(Steps(), ElementsAre(30));  // readers are not affected
  ASSERT_TRUE(RemoveOne(Path(kEpochName)).ok());
  EXPECT_TRUE(CheckpointStore::Open(directory_, 2).ok());
}

TEST_F(CheckpointStoreTest, WhatCannotBeLookedAtIsNotSetAside) {
  ASSERT_TRUE(Commit(20).ok());
  const std::string step_dir = checkpoint::StepDirectory(directory_, 20);
  FileCallLog log(directory_);
  log.FailStat("step-00000020.damaged", EIO);
  EXPECT_TRUE(absl::IsResourceExhausted(store_->SetAside(step_dir)));
  log.FailStat("step-00000020", EIO);
  const absl::Status status = store_->SetAside(step_dir);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(step_dir));
  EXPECT_THAT(log.calls(), IsEmpty());
  log.FailStat("step-00000020/manifest.json", EIO);
  store_.reset();
  EXPECT_THAT(std::string(CheckpointStore::Open(directory_, 2).status().message()),
              AllOf(testing::StartsWith("checkpoint.dir: "), HasSubstr("manifest.json: cannot look at it")));
}

TEST_F(CheckpointStoreTest, SettingAsideRenamesWithoutOverwriting) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(Commit(20).ok());
    ASSERT_TRUE(store_->SetAside(checkpoint::StepDirectory(directory_, 20)).ok());
  }
  EXPECT_THAT(ListDirectory(directory_).value(),
              ElementsAre(".epoch", ".epoch.spare", ".lock", "step-00000020.damaged", "step-00000020.damaged-2"));
  EXPECT_TRUE(store_->SetAside(checkpoint::StepDirectory(directory_, 30)).ok());  // it is out of the way already
  // A checkpoint that was set aside does not count among those kept.
  ASSERT_TRUE(Commit(30).ok());
  ASSERT_TRUE(Commit(40).ok());
  EXPECT_THAT(Steps(), ElementsAre(30, 40));
}

}  // namespace
}  // namespace zerofleet::services
