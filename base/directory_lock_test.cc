// One holder at a time, noticed when the directory goes.
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
    EXPECT_TRUE((*first)->CheckHeld().ok());
  }
  EXPECT_TRUE(DirectoryLock::Acquire(dir_, ".lock").ok());
}

TEST_F(DirectoryLockTest, ARemovedDirectoryIsNoticedAndNobodyElseGetsIn) {
  const auto lock = DirectoryLock::Acquire(dir_, ".lock");
  ASSERT_TRUE(lock.ok());
  ASSERT_TRUE(RemoveTree(dir_).ok());
  EXPECT_EQ((*lock)->CheckHeld().code(), absl::StatusCode::kNotFound);
  // Made anew, it is another directory with the same name.
  EXPECT_EQ(DirectoryLock::Acquire(dir_, ".lock").status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(IsDirectory(dir_));
  EXPECT_EQ((*lock)->CheckHeld().message(), dir_ + " was removed or replaced while it was in use");
  ASSERT_TRUE(WriteFileAtomically(JoinPath(dir_, ".lock"), "").ok());
  EXPECT_EQ((*lock)->CheckHeld().code(), absl::StatusCode::kNotFound);
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
