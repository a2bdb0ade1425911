// The description of a run's files, and how a difference reads.
#include "worker/data/fingerprint.h"

#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gtest/gtest.h"
#include "worker/data/dataset.h"

namespace zerofleet::data {
namespace {

class FingerprintTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(CreateDirectories(directory_).ok());
    config_.set_format("text");
    config_.set_tokenizer("bytes");
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(JoinPath(directory_, name), std::ios::binary) << text;
  }
  std::unique_ptr<Dataset> Open(const std::vector<std::string>& names) {
    std::vector<DataPath> paths;
    for (const std::string& name : names) paths.push_back({"data.train", JoinPath(directory_, name)});
    TextTokenizer text(config_, {});
    absl::StatusOr<std::unique_ptr<Dataset>> opened = Dataset::Open(config_, paths, 8, 256, text);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  // How the data now differ from `before`, without the directory in the text.
  DataChange Change(const v1::DataFiles& before, const std::vector<std::string>& names) {
    DataChange change = Open(names)->ChangeSince("data.train", before);
    for (size_t at = 0; (at = change.text.find(directory_)) != std::string::npos;) {
      change.text.erase(at, directory_.size() + 1);
    }
    return change;
  }

  std::string directory_ = JoinPath(testing::TempDir(), absl::StrCat("zerofleet_fingerprint_", getpid()));
  v1::DataConfig config_;
};

TEST_F(FingerprintTest, TheSameDataElsewhereAreTheSame) {
  Write("a.txt", std::string(100'000, 'a'));
  Write("b.txt", std::string(50, 'b'));
  const v1::DataFiles before = Open({"a.txt", "b.txt"})->Files();
  EXPECT_EQ(before.files_size(), 2);
  Write("moved.txt", std::string(100'000, 'a'));
  EXPECT_EQ(Change(before, {"a.txt", "b.txt"}).text, "");
  EXPECT_EQ(Change(before, {"moved.txt", "b.txt"}).text, "");
}

TEST_F(FingerprintTest, ADifferenceNamesTheFileAndWhatDiffers) {
  Write("a.txt", std::string(100'000, 'a'));
  Write("b.txt", std::string(50, 'b'));
  const v1::DataFiles before = Open({"a.txt", "b.txt"})->Files();
  Write("c.txt", std::string(60, 'c'));
  DataChange change = Change(before, {"a.txt", "c.txt"});
  EXPECT_EQ(change.text, "data.train: c.txt (60 bytes) is read where b.txt (50 bytes) was");
  EXPECT_FALSE(change.only_grew);
  EXPECT_EQ(Change(before, {"a.txt"}).text, "data.train: there are 1 file, not 2");
  EXPECT_EQ(
      Change(before, {"b.txt", "a.txt", "c.txt"}).text,
      "data.train: b.txt (50 bytes) is read where a.txt (100000 bytes) was, and 1 other file differs; there are 3 "
      "files, not 2");
  Write("b.txt", std::string(40, 'b'));
  EXPECT_EQ(Change(before, {"a.txt", "b.txt"}).text, "data.train: b.txt has 40 bytes, had 50");
  Write("b.txt", std::string(50, 'x'));
  change = Change(before, {"a.txt", "b.txt"});
  EXPECT_EQ(change.text, "data.train: b.txt has other contents in its 50 bytes");
  EXPECT_FALSE(change.only_grew);
}

TEST_F(FingerprintTest, AFileThatGrewIsToldFromOneThatBecameAnother) {
  std::string text(100'000, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * i % 23);
  Write("a.txt", text);
  const v1::DataFiles before = Open({"a.txt"})->Files();
  Write("a.txt", text + std::string(70'000, 'z'));
  DataChange change = Change(before, {"a.txt"});
  EXPECT_EQ(change.text, "data.train: a.txt has grown from 100000 to 170000 bytes");
  EXPECT_TRUE(change.only_grew);
  text[0] = '!';
  Write("a.txt", text + std::string(70'000, 'z'));
  change = Change(before, {"a.txt"});
  EXPECT_EQ(change.text, "data.train: a.txt has 170000 bytes, had 100000");
  EXPECT_FALSE(change.only_grew);
}

TEST(FileLister, WhatThereIsNoRoomForIsToldAsOne) {
  const auto list = [](const std::string& last) {
    FileLister lister;
    for (int file = 0; file < 5000; ++file) {
      lister.Add(absl::StrCat("part-", file), file, std::string(32, file < 4999 ? 'f' : last[0]));
    }
    return lister.Done();
  };
  const v1::DataFiles before = list("0"), now = list("1");
  EXPECT_GT(before.files_size(), 1000);
  EXPECT_EQ(before.files_size() + before.more_files(), 5000);
  EXPECT_LE(before.ByteSizeLong(), static_cast<size_t>(kMostListedBytes + 100));
  const DigestOfBeginning none = [](int, int64_t) { return absl::NotFoundError("none"); };
  EXPECT_EQ(Compare("data.train", before, list("0"), none).text, "");
  const DataChange change = Compare("data.train", before, now, none);
  EXPECT_EQ(change.text, absl::StrCat("data.train: files after the first ", now.files_size(), " differ"));
  EXPECT_FALSE(change.only_grew);
}

}  // namespace
}  // namespace zerofleet::data
