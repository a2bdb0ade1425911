// Sample boundaries, formats, and the files that are refused.
#include "worker/data/dataset.h"

#include <unistd.h>

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(directory_).ok());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
    config_.set_format("auto");
    config_.set_tokenizer("bytes");
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  std::string Path(const std::string& name) const { return JoinPath(directory_, name); }
  std::string WriteBytes(const std::string& name, std::string_view bytes) {
    EXPECT_TRUE(WriteFileAtomically(Path(name), bytes).ok());
    return Path(name);
  }
  template <typename T>
  std::string WriteTokens(const std::string& name, const std::vector<T>& tokens) {
    return WriteBytes(name, {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T)});
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open(const std::vector<std::string>& paths, int64_t context,
                                                int64_t vocab = 256) {
    return Dataset::Open(config_, paths, context, vocab);
  }
  std::string OpenError(const std::vector<std::string>& paths, int64_t context, absl::StatusCode code) {
    absl::Status status = Open(paths, context).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }
  static std::vector<int32_t> Sample(const Dataset& dataset, int64_t sample) {
    std::vector<int32_t> tokens(dataset.context() + 1, -1);
    absl::Status status = dataset.Read(sample, tokens);
    EXPECT_TRUE(status.ok()) << status;
    return tokens;
  }

  std::string directory_ = JoinPath(testing::TempDir(), "zerofleet_dataset_test_" + std::to_string(getpid()));
  v1::DataConfig config_;
};

TEST_F(DatasetTest, SamplesOverlapByTheirTarget) {
  auto dataset = Open({WriteBytes("a.txt", std::string("\0\1\2\3\4\5\6\7", 8))}, 3).value();
  EXPECT_EQ(dataset->samples(), 2);  // floor((8-1)/3)
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre(3, 4, 5, 6));
}

TEST_F(DatasetTest, CountsAreFloorOfTokensLessOneByContext) {
  for (int64_t tokens = 5; tokens < 40; ++tokens) {
    std::string path = WriteBytes("a.txt", std::string(tokens, 'x'));
    EXPECT_EQ(Open({path}, 4).value()->samples(), (tokens - 1) / 4) << tokens;
  }
}

TEST_F(DatasetTest, SamplesDoNotCrossFiles) {
  std::string one = WriteBytes("1.txt", "abcde"), two = WriteBytes("2.txt", "vwxyz");
  auto dataset = Open({two, one}, 2).value();
  EXPECT_EQ(dataset->samples(), 4);
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre('x', 'y', 'z'));
  EXPECT_THAT(Sample(*dataset, 2), ElementsAre('a', 'b', 'c'));
}

TEST_F(DatasetTest, WidthsFollowEndingOrFormat) {
  std::string u16 = WriteTokens<uint16_t>("a.bin", {1, 256, 65535});
  std::string u32 = WriteTokens<uint32_t>("a.u32", {70000, 2, 99999});
  auto dataset = Open({u16, u32}, 2, 100000).value();
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre(1, 256, 65535));
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre(70000, 2, 99999));
  config_.set_format("text");
  EXPECT_EQ(Open({u16}, 2).value()->samples(), 2);
  config_.set_format("tokens_u16");
  EXPECT_EQ(Open({u32}, 5).value()->samples(), 1);
}

TEST_F(DatasetTest, DirectoriesAreTheirFilesSorted) {
  ASSERT_TRUE(CreateDirectories(Path("d/sub")).ok());
  WriteBytes("d/b.txt", "bbb");
  WriteBytes("d/a.txt", "aaa");
  WriteBytes("d/short.txt", "s");
  WriteBytes("d/.hidden", "hhhhhh");
  WriteBytes("d/sub/c.txt", "ccc");
  auto dataset = Open({Path("d")}, 2).value();
  EXPECT_EQ(dataset->samples(), 2);
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre('a', 'a', 'a'));
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre('b', 'b', 'b'));
}

TEST_F(DatasetTest, FilesWithoutASampleAreRefusedWithTheirCounts) {
  EXPECT_THAT(OpenError({Path("none.txt")}, 4, absl::StatusCode::kNotFound), HasSubstr("none.txt"));
  EXPECT_THAT(OpenError({WriteBytes("empty.txt", "")}, 4, absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("empty.txt: 0 tokens"), HasSubstr("at least 5")));
  EXPECT_THAT(OpenError({WriteBytes("short.txt", "abcd")}, 4, absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("short.txt: 4 tokens"), HasSubstr("at least 5")));
  ASSERT_TRUE(CreateDirectories(Path("d")).ok());
  WriteBytes("d/a.txt", "abc");
  EXPECT_THAT(OpenError({Path("d")}, 4, absl::StatusCode::kDataLoss), HasSubstr("the longest has 3 tokens"));
  EXPECT_THAT(OpenError({}, 4, absl::StatusCode::kInvalidArgument), HasSubstr("no files"));
}

TEST_F(DatasetTest, OddLengthsAreRefused) {
  EXPECT_THAT(OpenError({WriteBytes("a.u16", std::string(101, 'x'))}, 4, absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("a.u16: 101 bytes"), HasSubstr("2-byte")));
  EXPECT_THAT(OpenError({WriteBytes("a.u32", std::string(102, 'x'))}, 4, absl::StatusCode::kDataLoss),
              HasSubstr("4-byte"));
}

TEST_F(DatasetTest, IdsBeyondTheVocabularyAreNamed) {
  auto dataset = Open({WriteTokens<uint16_t>("a.u16", {1, 2, 3, 4, 300, 5, 6})}, 2, 300).value();
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre(1, 2, 3));
  std::vector<int32_t> tokens(3);
  for (int64_t sample : {1, 2}) {
    absl::Status status = dataset->Read(sample, tokens);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("a.u16: token 4 is id 300"), HasSubstr("has 300")));
  }
  auto wide = Open({WriteTokens<uint32_t>("a.u32", {1, 0xffffffffu})}, 1, 300).value();
  EXPECT_EQ(wide->Read(0, std::span(tokens).first(2)).code(), absl::StatusCode::kDataLoss);
}

TEST_F(DatasetTest, WhatThisVersionLacksIsNamedByKey) {
  std::string path = WriteBytes("a.txt", "abcdefgh");
  config_.set_format("megatron");
  EXPECT_THAT(OpenError({path}, 4, absl::StatusCode::kInvalidArgument), HasSubstr("data.format: 'megatron' is not in"));
  config_.set_format("auto");
  config_.set_tokenizer("spm.model");
  EXPECT_THAT(OpenError({path}, 4, absl::StatusCode::kInvalidArgument), HasSubstr("data.tokenizer: 'spm.model'"));
}

}  // namespace
}  // namespace zerofleet
