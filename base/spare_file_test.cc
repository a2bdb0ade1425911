// A file is replaced on a disk that is full, again and again, and never half; see spare_file.h.
#include "base/spare_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/file_calls_testing.h"

namespace zerofleet {
namespace {

using testing::ElementsAre;

class SpareFileTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(dir_).ok());
    ASSERT_TRUE(CreateDirectory(dir_).ok());
    log_ = std::make_unique<FileCallLog>(dir_);
  }
  void TearDown() override {
    log_.reset();
    ASSERT_TRUE(RemoveTree(dir_).ok());
  }
  std::string Read() { return ReadSmallFile(path_, 1 << 20).value(); }

  const std::string dir_ = JoinPath(testing::TempDir(), "zerofleet_spare_" + std::to_string(getpid()));
  const std::string path_ = JoinPath(dir_, "state");
  std::unique_ptr<FileCallLog> log_;
};

TEST_F(SpareFileTest, AFullDiskIsWrittenToAgainAndAgain) {
  ASSERT_TRUE(WriteFileKeepingRoom(path_, "first").ok());
  for (const int error : {ENOSPC, EDQUOT, ENOSPC}) {
    log_->FailCreation(error);
    const std::string contents = "with " + std::to_string(error);
    ASSERT_TRUE(WriteFileKeepingRoom(path_, contents).ok());
    EXPECT_EQ(Read(), contents);
    ASSERT_TRUE(WriteFileKeepingRoom(path_, "short").ok());
    EXPECT_EQ(Read(), "short");
    EXPECT_THAT(ListDirectory(dir_).value(), ElementsAre("state", "state.spare"));
  }
}

// The spare is written and synced under a name of its own before it takes the place of the file.
TEST_F(SpareFileTest, ItIsDurableBeforeItIsThere) {
  ASSERT_TRUE(WriteFileKeepingRoom(path_, "first").ok());
  log_->FailCreation(ENOSPC);
  const size_t before = log_->calls().size();
  ASSERT_TRUE(WriteFileKeepingRoom(path_, "second", JoinPath(dir_, "mine.tmp")).ok());
  const std::vector<std::string> calls = log_->calls();
  EXPECT_THAT(std::vector<std::string>(calls.begin() + static_cast<ptrdiff_t>(before), calls.end()),
              ElementsAre("rename state.spare mine.tmp", "write mine.tmp", "fsync mine.tmp", "rename mine.tmp state",
                          "rename mine.tmp state.spare", "fsync ."));
}

TEST_F(SpareFileTest, WithoutExchangeARenameDoes) {
  ASSERT_TRUE(WriteFileKeepingRoom(path_, "first").ok());
  log_->RefuseRenameFlags();
  log_->FailCreation(ENOSPC);
  ASSERT_TRUE(WriteFileKeepingRoom(path_, "second").ok());
  EXPECT_EQ(Read(), "second");
  log_->FailCreation(0);
  ASSERT_TRUE(WriteFileKeepingRoom(path_, "third").ok());
  EXPECT_THAT(ListDirectory(dir_).value(), ElementsAre("state", "state.spare"));
}

TEST_F(SpareFileTest, WhatCannotBeWrittenIsAnErrorAndTheOldFileStays) {
  log_->FailCreation(ENOSPC);
  EXPECT_TRUE(IsDiskFull(WriteFileKeepingRoom(path_, "first")));  // there is no spare
  log_->FailCreation(0);
  ASSERT_TRUE(WriteFileKeepingRoom(path_, "first").ok());
  log_->FailCreation(EIO);
  const absl::Status failed = WriteFileKeepingRoom(path_, "second");
  EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(IsDiskFull(failed));
  log_->FailCreation(ENOSPC);
  log_->FailFsync("state.tmp", EIO);
  EXPECT_FALSE(WriteFileKeepingRoom(path_, "second").ok());
  EXPECT_EQ(Read(), "first");
}

TEST_F(SpareFileTest, TheSpareGrowsWithTheContents) {
  ASSERT_TRUE(WriteFileKeepingRoom(path_, "first").ok());
  EXPECT_EQ(FileBytes(SparePath(path_)).value(), 4096);
  const std::string large(5000, 'x');
  ASSERT_TRUE(WriteFileKeepingRoom(path_, large).ok());
  EXPECT_EQ(FileBytes(SparePath(path_)).value(), 12288);
  log_->FailCreation(ENOSPC);
  ASSERT_TRUE(WriteFileKeepingRoom(path_, large + "y").ok());
  EXPECT_EQ(Read(), large + "y");
}

}  // namespace
}  // namespace zerofleet
