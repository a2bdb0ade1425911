// What is remembered, and when it is not believed.
#include "worker/data/checked_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

class CheckedFilesTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(CreateDirectories(directory_).ok()); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  void Remember(const std::string& key) {
    CheckedFiles files = CheckedFiles::Load(path_);
    files.Add(key);
    files.Save();
  }
  bool Knows(const std::string& key) { return CheckedFiles::Load(path_).Contains(key); }

  const std::string directory_ = JoinPath(testing::TempDir(), "zerofleet_checked_" + std::to_string(getpid()));
  const std::string path_ = JoinPath(directory_, "checked");
  const std::string one_ = Digest128("one"), two_ = Digest128("two");
};

TEST_F(CheckedFilesTest, RemembersWhatWasAdded) {
  EXPECT_FALSE(Knows(one_));
  Remember(one_);
  Remember(two_);
  EXPECT_TRUE(Knows(one_));
  EXPECT_TRUE(Knows(two_));
  EXPECT_FALSE(Knows(Digest128("three")));
  EXPECT_EQ(ListDirectory(directory_).value(), std::vector<std::string>{"checked"});
}

TEST_F(CheckedFilesTest, OneChangedByteAndNothingIsBelieved) {
  Remember(one_);
  const std::string text = ReadSmallFile(path_, 10000).value();
  ASSERT_EQ(ParseCheckedFiles(text).size(), 1u);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_TRUE(ParseCheckedFiles(changed).empty()) << i;
    EXPECT_TRUE(ParseCheckedFiles(text.substr(0, i)).empty()) << i;
  }
}

TEST_F(CheckedFilesTest, AListThatOthersCouldWriteIsNotBelieved) {
  Remember(one_);
  for (mode_t mode : {0664, 0646}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_FALSE(Knows(one_)) << mode;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_TRUE(Knows(one_));
  const std::string elsewhere = JoinPath(directory_, "elsewhere");
  ASSERT_EQ(rename(path_.c_str(), elsewhere.c_str()), 0);
  ASSERT_EQ(symlink(elsewhere.c_str(), path_.c_str()), 0);
  EXPECT_FALSE(Knows(one_));
  Remember(two_);  // replaces the link
  EXPECT_TRUE(Knows(two_));
  EXPECT_EQ(CheckedFiles::Load(elsewhere).Contains(two_), false);
}

// In a container that is started again a process often has the number of the one that was killed as it saved.
TEST_F(CheckedFilesTest, WhatAKilledProcessOfThisNumberLeftIsNotInTheWay) {
  ASSERT_TRUE(WriteFileAtomically(absl::StrCat(path_, ".", getpid(), ".tmp"), "half").ok());
  Remember(one_);
  EXPECT_TRUE(Knows(one_));
}

TEST_F(CheckedFilesTest, ThreadsMaySaveAtOnce) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < 50; ++i) Remember(Digest128(absl::StrCat(thread, ":", i)));
      for (int i = 0; i < 50; ++i) Remember(one_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Knows(one_));
  EXPECT_EQ(ListDirectory(directory_).value(), std::vector<std::string>{"checked"});
}

TEST_F(CheckedFilesTest, NowhereToWriteIsNoError) {
  CheckedFiles nowhere = CheckedFiles::Load("");
  nowhere.Add(one_);
  EXPECT_TRUE(nowhere.Contains(one_));
  nowhere.Save();
  CheckedFiles missing = CheckedFiles::Load(JoinPath(directory_, "no/such/place"));
  missing.Add(one_);
  missing.Save();
  EXPECT_TRUE(ListDirectory(directory_).value().empty());
}

}  // namespace
}  // namespace zerofleet::data
