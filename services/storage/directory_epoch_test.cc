// The newest coordinator wins, and a file that is not understood is left alone; see directory_epoch.h.
#include "services/storage/directory_epoch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/file_calls_testing.h"

namespace zerofleet::services {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kGood[] =
    "{\"format_version\": 1, \"epoch\": 7, \"generation\": 3, \"host\": \"n1\", \"pid\": 812, "
    "\"incarnation\": \"5c1f\", \"since_unix_seconds\": 1764000000}";

class DirectoryEpochTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(dir_).ok());
    ASSERT_TRUE(CreateDirectory(dir_).ok());
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(dir_).ok()); }

  std::unique_ptr<DirectoryEpoch> Claim(uint64_t generation = 0) {
    absl::StatusOr<std::unique_ptr<DirectoryEpoch>> claimed =
        DirectoryEpoch::Claim(dir_, generation, absl::FromUnixSeconds(1764000000));
    EXPECT_TRUE(claimed.ok()) << claimed.status();
    return claimed.ok() ? *std::move(claimed) : nullptr;
  }
  void Put(const std::string& text) { ASSERT_TRUE(WriteFileAtomically(path_, text).ok()); }

  const std::string dir_ = JoinPath(testing::TempDir(), "zerofleet_epoch_" + std::to_string(getpid()));
  const std::string path_ = JoinPath(dir_, kEpochName);
};

TEST_F(DirectoryEpochTest, TheNewestHoldsTheDirectory) {
  const auto first = Claim(2), second = Claim(3);
  const DirectoryHolder holder = ReadDirectoryHolder(dir_).value();
  EXPECT_EQ(holder.epoch, 2);
  EXPECT_EQ(holder.generation, 3u);
  EXPECT_EQ(holder.pid, getpid());
  EXPECT_EQ(holder.since_unix_seconds, 1764000000);
  EXPECT_TRUE(second->Check().ok());
  const absl::Status fenced = first->Check();
  EXPECT_EQ(fenced.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(fenced.message(),
            absl::StrCat("another coordinator (host ", holder.host, ", pid ", getpid(), ") has taken over ", dir_,
                         " since 2025-11-24 16:00:00 UTC (epoch 2, this one has 1)"));
  EXPECT_EQ(first->Restore(), fenced);  // the directory is not taken back
  EXPECT_TRUE(second->Check().ok());
  EXPECT_THAT(ListDirectory(dir_).value(), ElementsAre(kEpochName, ".epoch.spare"));
}

TEST_F(DirectoryEpochTest, ItIsDurableBeforeAnythingRestsOnIt) {
  FileCallLog log(dir_);
  Claim();
  std::vector<std::string> calls = log.calls();
  ASSERT_GE(calls.size(), 4u);
  calls.resize(4);  // calls for the spare file follow
  const std::string temporary = calls[0].substr(std::string("write ").size());
  EXPECT_THAT(temporary, testing::MatchesRegex("\\.epoch\\.[0-9a-f]+\\.tmp"));
  EXPECT_THAT(calls,
              ElementsAre("write " + temporary, "fsync " + temporary, "rename " + temporary + " .epoch", "fsync ."));
}

// Two coordinators that begin at the same moment have read the same epoch: the last to rename wins, and the other
// learns that.
TEST_F(DirectoryEpochTest, OfTwoAtOnceOneWins) {
  Put(kGood);
  absl::Status slower;
  {
    FileCallLog log(dir_);
    log.HoldFsync(".");  // the slower one has renamed by then
    std::thread claims([&] { slower = DirectoryEpoch::Claim(dir_, 0, absl::UnixEpoch()).status(); });
    log.WaitUntilHeld();
    Put(absl::StrReplaceAll(kGood, {{"\"epoch\": 7", "\"epoch\": 8"}}));
    log.ReleaseFsync();
    claims.join();
  }
  EXPECT_EQ(slower.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(slower.message()), HasSubstr("(host n1, pid 812) has taken over"));
}

TEST_F(DirectoryEpochTest, AFileThatIsGoneIsWrittenAnew) {
  const auto epoch = Claim();
  ASSERT_TRUE(RemoveOne(path_).ok());
  EXPECT_EQ(epoch->Check().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(epoch->Restore().ok());
  EXPECT_TRUE(epoch->Check().ok());
}

TEST_F(DirectoryEpochTest, WhatAKilledOneLeftIsRemoved) {
  ASSERT_TRUE(WriteFileAtomically(JoinPath(dir_, ".epoch.5c1f.tmp"), "half").ok());
  ASSERT_TRUE(WriteFileAtomically(JoinPath(dir_, ".epochs"), "mine").ok());
  Claim();
  EXPECT_THAT(ListDirectory(dir_).value(), ElementsAre(kEpochName, ".epoch.spare", ".epochs"));
}

TEST_F(DirectoryEpochTest, WhatIsNotUnderstoodIsRefusedAndLeft) {
  Put(kGood);
  ASSERT_TRUE(ReadDirectoryHolder(dir_).ok());
  std::vector<std::string> bad = {"", "{", "[]", "{}", std::string(5000, ' ') + kGood, std::string(5000, '\0')};
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"format_version\": 1", "\"format_version\": 2"},
                                                        {"\"format_version\": 1", "\"format_version\": 0"},
                                                        {"\"epoch\": 7", "\"epoch\": 0"},
                                                        {"\"epoch\": 7", "\"epoch\": 9223372036854775807"},
                                                        {"\"epoch\": 7", "\"epoch\": 18446744073709551615"},
                                                        {"\"epoch\": 7", "\"epoch\": 7, \"epoch\": 8"},
                                                        {"\"generation\": 3", "\"generation\": -3"},
                                                        {"\"host\": \"n1\"", "\"host\": \"n1\\u001b[31m\""},
                                                        {"\"host\": \"n1\"", "\"host\": \"\""},
                                                        {"\"n1\"", absl::StrCat("\"", std::string(256, 'n'), "\"")},
                                                        {"\"pid\": 812", "\"pid\": \"812\""},
                                                        {"\"incarnation\": \"5c1f\"", "\"incarnation\": 5"},
                                                        {"1764000000}", "1764000000000}"}}) {
    bad.push_back(absl::StrReplaceAll(kGood, {{from, to}}));
  }
  for (const std::string& text : bad) {
    Put(text);
    const absl::Status status = DirectoryEpoch::Claim(dir_, 0, absl::UnixEpoch()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path_), HasSubstr("move the file away"))) << text;
    EXPECT_EQ(ReadSmallFile(path_, 1 << 20).value(), text);
  }
}

TEST_F(DirectoryEpochTest, SomethingElseInItsPlaceIsLeft) {
  ASSERT_TRUE(CreateDirectory(path_).ok());
  EXPECT_EQ(DirectoryEpoch::Claim(dir_, 0, absl::UnixEpoch()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(IsDirectory(path_));
}

// A run that a full disk stopped can start again there: its saves fail with an error of their own.
TEST_F(DirectoryEpochTest, AFullDiskIsTakenOver) {
  Put(kGood);
  const auto first = Claim();
  FileCallLog log(dir_);
  log.FailCreation(ENOSPC);
  const auto second = Claim(), third = Claim();
  ASSERT_TRUE(second != nullptr && third != nullptr);
  EXPECT_EQ(ReadDirectoryHolder(dir_)->epoch, 10);
  EXPECT_TRUE(third->Check().ok());
  EXPECT_EQ(second->Check().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(ListDirectory(dir_).value(), ElementsAre(kEpochName, ".epoch.spare"));
}

// On a full disk it is not known, either, whether another coordinator could write.
TEST_F(DirectoryEpochTest, OneThatCannotBeWrittenIsNotHeld) {
  FileCallLog log(dir_);
  log.FailRename(kEpochName, EIO);
  const absl::Status status = DirectoryEpoch::Claim(dir_, 0, absl::UnixEpoch()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace zerofleet::services
