// Each promise that a file system breaks is named, and nothing is left of the trial; see directory_probe.h.
#include "base/directory_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "base/directory_lock.h"
#include "base/file.h"
#include "base/file_calls_testing.h"

namespace zerofleet {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr long kTmpfs = 0x01021994, kNfs = 0x6969;

class DirectoryProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(dir_).ok());
    ASSERT_TRUE(CreateDirectory(dir_).ok());
    log_ = std::make_unique<FileCallLog>(dir_);
    log_->SetFileSystem(kTmpfs);
  }
  void TearDown() override {
    log_.reset();
    EXPECT_THAT(ListDirectory(dir_).value(), IsEmpty()) << "the trial left something";
    ASSERT_TRUE(RemoveTree(dir_).ok());
  }

  // What the trial says against the directory.
  std::string Refusal() {
    const absl::Status status = ProbeDirectory(dir_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(dir_ + " is on tmpfs, where "),
                                                     HasSubstr(": no checkpoint can be committed safely there")));
    return std::string(status.message());
  }
  std::vector<std::string> Weaknesses() {
    const absl::StatusOr<DirectoryTraits> traits = ProbeDirectory(dir_);
    EXPECT_TRUE(traits.ok()) << traits.status();
    return traits.ok() ? traits->weaknesses : std::vector<std::string>{"refused"};
  }

  const std::string dir_ = JoinPath(testing::TempDir(), "zerofleet_probe_" + std::to_string(getpid()));
  std::unique_ptr<FileCallLog> log_;
};

TEST_F(DirectoryProbeTest, ASoundDirectoryHasNoWeaknesses) {
  const absl::StatusOr<DirectoryTraits> traits = ProbeDirectory(dir_);
  ASSERT_TRUE(traits.ok()) << traits.status();
  EXPECT_EQ(traits->file_system, "tmpfs");
  EXPECT_THAT(traits->weaknesses, IsEmpty());
  struct stat info;
  ASSERT_EQ(stat(dir_.c_str(), &info), 0);
  EXPECT_EQ(traits->device, info.st_dev);
}

TEST_F(DirectoryProbeTest, ExclusiveCreationThatIsNone) {
  log_->IgnoreExclusive();
  EXPECT_THAT(Refusal(), HasSubstr("exclusive creation (O_EXCL) opens a file that exists"));
}

TEST_F(DirectoryProbeTest, ARenameThatReplacesNothing) {
  log_->RefuseRenameFlags();  // as such file systems do
  log_->KeepRenamed();
  EXPECT_THAT(Refusal(), HasSubstr("is not one step"));
}

TEST_F(DirectoryProbeTest, ARenameThatWasCarriedOutCountsWhateverIsToldOfIt) {
  log_->LoseEveryRename(EIO);
  EXPECT_THAT(Weaknesses(), IsEmpty());
}

TEST_F(DirectoryProbeTest, RenameFlagsThatAreNotHeeded) {
  log_->IgnoreRenameFlags();
  EXPECT_THAT(Refusal(), HasSubstr("replaces a file against RENAME_NOREPLACE"));
}

TEST_F(DirectoryProbeTest, ADirectoryThatCannotBeSynced) {
  log_->FailFsync(".", EINVAL);
  EXPECT_THAT(Refusal(), HasSubstr("fsync of a directory fails (Invalid argument)"));
}

TEST_F(DirectoryProbeTest, WhatIsWeakerIsToldAndAccepted) {
  log_->RefuseRenameFlags();
  log_->BendFlock(ENOSYS);
  EXPECT_THAT(Weaknesses(), ElementsAre(HasSubstr("does not know RENAME_NOREPLACE"), HasSubstr("has no flock (")));
  log_->BendFlock(0);
  EXPECT_THAT(Weaknesses(), ElementsAre(HasSubstr("RENAME_NOREPLACE"), HasSubstr("to two at once")));
}

TEST_F(DirectoryProbeTest, SharedFileSystemsAreKnownForTheirLocks) {
  log_->SetFileSystem(kNfs);
  EXPECT_EQ(ProbeDirectory(dir_)->file_system, "nfs");
  EXPECT_THAT(Weaknesses(), ElementsAre("may hold a lock (flock) on one node alone: mount it without nolock and "
                                        "local_lock, and start no second coordinator there from another node"));
  log_->SetFileSystem(0x1a2b);
  EXPECT_EQ(ProbeDirectory(dir_)->file_system, "a file system of type 0x1a2b");
  EXPECT_THAT(Weaknesses(), IsEmpty());
}

TEST_F(DirectoryProbeTest, AFullDiskIsNoReasonToRefuse) {
  log_->FailCreation(ENOSPC);
  EXPECT_THAT(Weaknesses(), ElementsAre(HasSubstr("is full")));
  log_->FailCreation(EDQUOT);
  EXPECT_THAT(Weaknesses(), ElementsAre(HasSubstr("is full")));
}

TEST_F(DirectoryProbeTest, WhatCannotBeWrittenIsNotJudged) {
  log_->FailCreation(EROFS);
  const absl::Status status = ProbeDirectory(dir_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Read-only file system"));
  log_->FailCreation(0);
  log_->FailFsync(".", EIO);
  EXPECT_EQ(ProbeDirectory(dir_).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(DirectoryProbeTest, WhatAKilledTrialLeftIsRemovedAndNothingElse) {
  const std::string mine = JoinPath(dir_, ".probes");
  ASSERT_TRUE(WriteFileAtomically(mine, "mine").ok());
  ASSERT_TRUE(WriteFileAtomically(JoinPath(dir_, ".probe.812.5c1f.a"), "").ok());
  ASSERT_TRUE(CreateDirectory(JoinPath(dir_, ".probe.812.5c1f.d")).ok());
  EXPECT_THAT(Weaknesses(), IsEmpty());
  EXPECT_THAT(ListDirectory(dir_).value(), ElementsAre(".probes"));
  ASSERT_TRUE(RemoveOne(mine).ok());
}

// The socket named after the directory still keeps other processes on this machine out.
TEST_F(DirectoryProbeTest, ADirectoryWithoutFlockIsHeldAllTheSame) {
  log_->BendFlock(EOPNOTSUPP);
  const auto lock = DirectoryLock::Acquire(dir_, ".lock");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(DirectoryLock::Acquire(dir_, ".lock").status().code(), absl::StatusCode::kAlreadyExists);
  log_->BendFlock(EIO);
  EXPECT_EQ(DirectoryLock::Acquire(dir_, "other").status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(RemoveOne(JoinPath(dir_, ".lock")).ok());
  ASSERT_TRUE(RemoveOne(JoinPath(dir_, "other")).ok());
}

}  // namespace
}  // namespace zerofleet
