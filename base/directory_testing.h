// For tests: an empty directory for each test, removed behind it.
#ifndef ZEROFLEET_BASE_DIRECTORY_TESTING_H_
#define ZEROFLEET_BASE_DIRECTORY_TESTING_H_

#include <unistd.h>

#include <string>

#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet {

class DirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(directory_).ok());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }
  std::string Path(const std::string& name) const { return JoinPath(directory_, name); }

  const std::string directory_ = JoinPath(testing::TempDir(), "zerofleet_test_" + std::to_string(getpid()));
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_DIRECTORY_TESTING_H_
