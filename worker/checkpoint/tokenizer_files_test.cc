// A tokenizer's files in a checkpoint: copied, described, verified.
#include "worker/checkpoint/tokenizer_files.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json_parse.h"
#include "worker/checkpoint/catalog.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TokenizerFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "tokenizer_files_" + std::to_string(getpid());
    ASSERT_TRUE(CreateDirectories(JoinPath(directory_, "into")).ok());
    Write("mine.json", "{\"model\":{}}");
    Write("tokenizer_config.json", "{}");
    Write("generation_config.json", R"({"eos_token_id":[1,2]})");
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(JoinPath(directory_, name)) << text; }

  std::string directory_;
};

TEST_F(TokenizerFilesTest, AreCopiedUnderTheirNames) {
  const TokenizerFiles files = ReadTokenizerFiles(JoinPath(directory_, "mine.json")).value();
  ASSERT_THAT(files, SizeIs(3));
  EXPECT_EQ(files[0].name, "tokenizer.json");
  EXPECT_EQ(files[1].name, "tokenizer_config.json");
  EXPECT_EQ(files[2].name, "generation_config.json");
  const std::string into = JoinPath(directory_, "into");
  ASSERT_TRUE(WriteTokenizerFiles(into, files).ok());
  ASSERT_TRUE(WriteTokenizerFiles(into, files).ok()) << "a second try";
  v1::CheckpointManifest manifest;
  DescribeTokenizer(files, &manifest);
  DescribeTokenizer(files, &manifest);
  EXPECT_EQ(manifest.tokenizer_size(), 3);
  EXPECT_TRUE(VerifyTokenizerFiles(into, manifest).ok());
  EXPECT_EQ(TokenizerOf(into, manifest), into);
  EXPECT_EQ(ReadTokenizerFiles(into).value()[0].contents, files[0].contents);
  Write("into/tokenizer.json", "{\"model\":[]}");
  EXPECT_THAT(std::string(VerifyTokenizerFiles(into, manifest).message()),
              HasSubstr("into/tokenizer.json: has 12 bytes"));
  ASSERT_TRUE(RemoveOne(JoinPath(into, "tokenizer.json")).ok());
  EXPECT_EQ(VerifyTokenizerFiles(into, manifest).code(), absl::StatusCode::kDataLoss);
}

// The tokenizer read from a checkpoint is the one that was copied into it.
TEST_F(TokenizerFilesTest, OtherKindsKeepTheirNames) {
  for (const auto& [name, kept] :
       {std::pair{"spm_llama", "tokenizer.model"}, {"tiktoken_cl100k_base", "cl100k_base.tiktoken"}}) {
    const std::string fixture = absl::StrCat("tests/oracle/data/tokenizers/", name, ".json");
    const nlohmann::json json = ParseJson(ReadSmallFile(fixture, 1 << 20).value()).value();
    std::string contents;
    ASSERT_TRUE(absl::Base64Unescape(json["file"].get<std::string>(), &contents));
    const std::string file = json.value("name", "any.model"), into = JoinPath(directory_, absl::StrCat("into_", name));
    Write(file, contents);
    ASSERT_TRUE(CreateDirectories(into).ok());
    const TokenizerFiles files = ReadTokenizerFiles(JoinPath(directory_, file)).value();
    EXPECT_EQ(files[0].name, kept);
    EXPECT_TRUE(IsTokenizerFileName(files[0].name));
    ASSERT_TRUE(WriteTokenizerFiles(into, files).ok());
    EXPECT_EQ(text::Tokenizer::Load(into).value()->digest(),
              text::Tokenizer::Load(JoinPath(directory_, file)).value()->digest());
  }
}

TEST_F(TokenizerFilesTest, BytesHaveNone) {
  EXPECT_THAT(ReadTokenizerFiles("bytes").value(), IsEmpty());
  EXPECT_EQ(TokenizerOf("somewhere", {}), "bytes");
}

TEST_F(TokenizerFilesTest, AreRemovedWithTheirCheckpoint) {
  const std::string into = JoinPath(directory_, "into");
  ASSERT_TRUE(WriteTokenizerFiles(into, ReadTokenizerFiles(JoinPath(directory_, "mine.json")).value()).ok());
  Write("into/tokenizer.json.tmp", "");
  ASSERT_TRUE(RemoveCheckpointFiles(into).ok());
  EXPECT_FALSE(FileExists(into));
}

TEST_F(TokenizerFilesTest, AFolderOfATokenizerAloneIsNoLeftover) {
  const std::string folder = JoinPath(directory_, "step-00000003");
  ASSERT_TRUE(CreateDirectories(folder).ok());
  Write("step-00000003/tokenizer.json", "{}");
  RemoveLeftovers(directory_, absl::InfiniteFuture());
  EXPECT_TRUE(FileExists(folder));
}

}  // namespace
}  // namespace zerofleet::checkpoint
