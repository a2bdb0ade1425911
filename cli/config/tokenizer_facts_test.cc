// What a configuration takes from a tokenizer's file, and when it refuses one.
#include "cli/config/tokenizer_facts.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "cli/config/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json.h"

namespace zerofleet::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class TokenizerFactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "tokenizer_facts_" + std::to_string(getpid());
    ASSERT_TRUE(CreateDirectories(folder_).ok());
    std::ofstream(JoinPath(folder_, "tokenizer.json"))
        << R"({"model":{"type":"BPE","vocab":{"a":0,"b":299},"merges":[]}})";
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(folder_).ok()); }

  absl::StatusOr<v1::Config> Parse(const std::string& data, const std::string& model = "") const {
    return ParseConfig(
        absl::StrCat("model: {layers: 1, hidden: 8, heads: 1, context: 8", model, "}\ndata: {train: [a]", data, "}\n"),
        "run.yaml", {});
  }
  std::string Error(const std::string& data, const std::string& model = "") const {
    const absl::Status status = Parse(data, model).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  std::string folder_;
};

TEST_F(TokenizerFactsTest, TheVocabularyIsTheTokenizers) {
  const v1::Config config = Parse(", tokenizer: " + folder_).value();
  EXPECT_EQ(config.model().vocab(), 300);
  EXPECT_THAT(config.data().tokenizer_digest(), SizeIs(32));
  EXPECT_EQ(Parse(", format: tokens_u16, tokenizer: " + folder_)->model().vocab(), 300);
  EXPECT_EQ(Parse(", tokenizer: " + folder_, ", vocab: 320")->model().vocab(), 320);
  EXPECT_EQ(Parse("")->model().vocab(), 256);
  EXPECT_EQ(Parse("")->data().tokenizer_digest(), "");
  // As `train` writes it for its processes.
  const v1::Config again = ParseConfig(DumpJson(ProtoToJson(config)), "config.json", {}).value();
  EXPECT_EQ(again.SerializeAsString(), config.SerializeAsString());
}

TEST_F(TokenizerFactsTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(Error(", tokenizer: " + folder_, ", vocab: 299"),
              AllOf(HasSubstr("run.yaml:1: model.vocab: must be >= 300"), HasSubstr(folder_)));
  EXPECT_THAT(Error(", tokenizer: /nowhere.json"), HasSubstr("run.yaml:2: data.tokenizer: /nowhere.json: "));
  const std::string other(32, '0');
  EXPECT_THAT(Error(absl::StrCat(", tokenizer: ", folder_, ", tokenizer_digest: '", other, "'")),
              AllOf(HasSubstr("data.tokenizer_digest: is " + other), HasSubstr(folder_)));
  EXPECT_THAT(Error(absl::StrCat(", tokenizer_digest: '", other, "'")), HasSubstr("needs data.tokenizer"));
}

}  // namespace
}  // namespace zerofleet::cli
