// Weaknesses are reported, unsafe directories are refused, and calls that hang are given up; see coordinator_storage.h.
#include "services/storage/coordinator_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/file_calls_testing.h"
#include "services/storage/coordinator_state.h"

namespace zerofleet::services {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class CoordinatorStorageTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(dir_).ok());
    ASSERT_TRUE(CreateDirectories(checkpoints_).ok());
    options_.state_dir = JoinPath(checkpoints_, ".coordinator");
    options_.config.mutable_checkpoint()->set_dir(checkpoints_);
    options_.config.mutable_checkpoint()->set_stall_timeout_seconds(30);
    options_.config.mutable_restart()->set_form_timeout_seconds(60);
    options_.patience = absl::ZeroDuration();
    options_.tick = absl::Milliseconds(1);
    options_.clock = &clock_;
    log_ = std::make_unique<FileCallLog>(dir_);
    log_->SetFileSystem(0x01021994);  // tmpfs, which has no weakness, wherever the test runs
  }
  void TearDown() override {
    log_.reset();
    ASSERT_TRUE(RemoveTree(dir_).ok());
  }

  const std::string dir_ = JoinPath(testing::TempDir(), "zerofleet_storage_" + std::to_string(getpid())),
                    checkpoints_ = JoinPath(dir_, "checkpoints");
  FakeClock clock_;
  CoordinatorStorageOptions options_;
  std::unique_ptr<FileCallLog> log_;
};

TEST_F(CoordinatorStorageTest, WhatIsWeakIsToldOnceForAFileSystem) {
  EXPECT_THAT(OpenCoordinatorStorage(options_)->plan.notices, IsEmpty());
  log_->RefuseRenameFlags();
  log_->SetFileSystem(0x6969);
  EXPECT_THAT(OpenCoordinatorStorage(options_)->plan.notices,
              ElementsAre(AllOf(
                  StartsWith(absl::StrCat("checkpoint.dir: the file system of ", checkpoints_, " (nfs) does not")),
                  HasSubstr("RENAME_NOREPLACE: let nothing else make step directories there; it may hold a lock"),
                  HasSubstr("start no second coordinator there from another node"))));
}

TEST_F(CoordinatorStorageTest, WhatMakesCommitsUnsafeIsRefusedBeforeAnythingIsWritten) {
  log_->FailFsync("checkpoints", EINVAL);
  const absl::Status status = OpenCoordinatorStorage(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(StartsWith(absl::StrCat("checkpoint.dir: ", checkpoints_, " is on tmpfs, where fsync of a directory")),
            HasSubstr("(Invalid argument)")));
  EXPECT_THAT(ListDirectory(checkpoints_).value(), ElementsAre(".coordinator", ".lock"));
  log_->FailFsync("checkpoints/.coordinator", EINVAL);
  EXPECT_THAT(std::string(OpenCoordinatorStorage(options_).status().message()),
              StartsWith(absl::StrCat("--state-dir: ", options_.state_dir, " is on tmpfs, where")));
}

// The state is written by a coordinator that no lock has kept out, and that still held the checkpoint directory then.
TEST_F(CoordinatorStorageTest, AStateThatIsWrittenMeanwhileIsRead) {
  log_->HoldFsync("checkpoints");  // the file system's trial; the state has been read by then
  absl::StatusOr<CoordinatorStorage> opened;
  std::thread opens([&] { opened = OpenCoordinatorStorage(options_); });
  log_->WaitUntilHeld();
  EXPECT_TRUE(WriteCoordinatorState(options_.state_dir, {7, -1, {}}).ok());
  log_->ReleaseFsync();
  opens.join();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->previous_generation, 7u);
  EXPECT_TRUE(opened->one_file_system);
}

TEST_F(CoordinatorStorageTest, StorageThatHangsIsNamedAndGivenUp) {
  log_->HoldFsync("checkpoints");  // the file system's trial
  absl::Status status;
  std::atomic<bool> ended = false;
  std::thread opens([&] {
    status = OpenCoordinatorStorage(options_).status();
    ended = true;
  });
  log_->WaitUntilHeld();
  while (!ended) {
    clock_.Advance(1);
    absl::SleepFor(absl::Milliseconds(1));  // lets ticks happen in between
  }
  opens.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("the opening of checkpoint.dir ", checkpoints_, " has got no further for 90 s")));
  log_->ReleaseFsync();
  // A call that was given up continues, and releases the directory when it is done.
  options_.clock = &Clock::Real();
  options_.patience = absl::InfiniteDuration();
  EXPECT_TRUE(OpenCoordinatorStorage(options_).ok());
}

}  // namespace
}  // namespace zerofleet::services
