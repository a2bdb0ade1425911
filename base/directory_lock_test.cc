// A directory has one holder at a time, also when it is removed.
#include "base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet {
namespace {

class DirectoryLockTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(RemoveTree(dir_).ok()); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(dir_).ok()); }
  const std::string dir_ = JoinPath(testing::TempDir(), "zerofleet_lock_" + std::to_string(getpid()));
};

TEST_F(DirectoryLockTest, OneAtATimeAndFreeAgainAfterwards) {
  {
    const auto first = DirectoryLock::Acquire(dir_, ".lock");
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(DirectoryLock::Acquire(dir_, ".lock").status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(DirectoryLock::Acquire(dir_ + "/.", ".lock").status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_TRUE(DirectoryLock::Acquire(dir_, "other").ok());
    EXPECT_FALSE((*first)->Renew().value());
  }
  EXPECT_TRUE(DirectoryLock::Acquire(dir_, ".lock").ok());
}

TEST_F(DirectoryLockTest, ARemovedDirectoryIsMadeAnewAndNobodyElseGetsIn) {
  const auto lock = DirectoryLock::Acquire(dir_, ".lock");
  ASSERT_TRUE(lock.ok());
  EXPECT_FALSE((*lock)->Renew().value());
  ASSERT_TRUE(RemoveTree(dir_).ok());
  EXPECT_EQ(DirectoryLock::Acquire(dir_, ".lock").status().code(), absl::StatusCode::kAlreadyExists);  // creates it
  ASSERT_TRUE(IsDirectory(dir_));
  EXPECT_TRUE((*lock)->Renew().value());
  EXPECT_FALSE((*lock)->Renew().value());
  const int file = open(JoinPath(dir_, ".lock").c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  EXPECT_NE(flock(file, LOCK_EX | LOCK_NB), 0);  // another machine does not get in, either
  close(file);
  ASSERT_TRUE(RemoveTree(dir_).ok());
  EXPECT_TRUE((*lock)->Renew().value());
}

TEST_F(DirectoryLockTest, AReplacedDirectoryIsLost) {
  const auto lock = DirectoryLock::Acquire(dir_, ".lock");
  ASSERT_TRUE(lock.ok());
  ASSERT_TRUE(RemoveTree(dir_).ok());
  ASSERT_TRUE(CreateDirectory(dir_).ok());
  const std::string path = JoinPath(dir_, ".lock");
  ASSERT_TRUE(WriteFileAtomically(path, "").ok());
  EXPECT_EQ((*lock)->Renew().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ((*lock)->Renew().status().message(), dir_ + " was replaced while it was in use");
  // A file is in the directory's place.
  ASSERT_TRUE(RemoveTree(dir_).ok());
  ASSERT_TRUE(WriteFileAtomically(dir_, "").ok());
  EXPECT_EQ((*lock)->Renew().status().code(), absl::StatusCode::kAlreadyExists);
}

// What another machine's lock on a shared directory looks like from here.
TEST_F(DirectoryLockTest, ALockOnTheFileAloneCounts) {
  ASSERT_TRUE(CreateDirectory(dir_).ok());
  const int file = open(JoinPath(dir_, ".lock").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(DirectoryLock::Acquire(dir_, ".lock").status().code(), absl::StatusCode::kAlreadyExists);
  close(file);
  EXPECT_TRUE(DirectoryLock::Acquire(dir_, ".lock").ok());
}

TEST_F(DirectoryLockTest, ADirectoryThatCannotBeMadeIsNamed) {
  EXPECT_EQ(DirectoryLock::Acquire("/proc/none", ".lock").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zerofleet
