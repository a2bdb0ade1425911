// Compares with Hugging Face's tokenizers on the same files (tests/oracle/make_tokenizer_fixtures.py), and checks what
// is refused.
#include "worker/text/bpe_tokenizer.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class TokenizerOracleTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = std::string("tests/oracle/data/tokenizers/") + GetParam() + ".json";
    fixture_ = ParseJson(ReadSmallFile(path, 1 << 20).value()).value();
    tokenizer_ = BpeTokenizer::Parse(fixture_["tokenizer"].dump()).value();
  }

  nlohmann::json fixture_;
  std::unique_ptr<BpeTokenizer> tokenizer_;
};

TEST_P(TokenizerOracleTest, IdsAndTextsAreTheirs) {
  ASSERT_THAT(fixture_["cases"], SizeIs(testing::Ge(20)));
  for (const nlohmann::json& example : fixture_["cases"]) {
    const auto text = example["text"].get<std::string>();
    const auto ids = example["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->Encode(text, /*special=*/false).value(), ids) << text;
    EXPECT_EQ(tokenizer_->Encode(text, /*special=*/true).value(), example["special"].get<std::vector<int32_t>>())
        << text;
    EXPECT_EQ(tokenizer_->Decode(ids, /*special=*/true).value(), example["decoded"].get<std::string>()) << text;
  }
}

// Compares tokenizer files of other kinds with their own libraries (tests/oracle/make_tokenizer_fixtures.py).
class TokenizerFileOracleTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = std::string("tests/oracle/data/tokenizers/") + GetParam() + ".json";
    fixture_ = ParseJson(ReadSmallFile(path, 1 << 20).value()).value();
    std::string contents;
    ASSERT_TRUE(absl::Base64Unescape(fixture_["file"].get<std::string>(), &contents));
    tokenizer_ = Tokenizer::Parse(fixture_.value("name", "tokenizer.model"), contents, "").value();
  }

  nlohmann::json fixture_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(TokenizerFileOracleTest, IdsAndTextsAreTheirs) {
  ASSERT_THAT(fixture_["cases"], SizeIs(testing::Ge(20)));
  for (const nlohmann::json& example : fixture_["cases"]) {
    const auto text = example["text"].get<std::string>();
    const auto ids = example["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->Encode(text, /*special=*/false).value(), ids) << text;
    EXPECT_EQ(tokenizer_->Encode(text, /*special=*/true).value(), example["special"].get<std::vector<int32_t>>());
    EXPECT_EQ(tokenizer_->Decode(ids, /*special=*/true).value(), example["decoded"].get<std::string>()) << text;
  }
  for (const nlohmann::json& example : fixture_.value("decoded", nlohmann::json::array())) {
    const auto ids = example["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->Decode(ids, /*special=*/false).value(), example["decoded"].get<std::string>())
        << example["ids"];
  }
  EXPECT_TRUE(tokenizer_->end_of_text().has_value());
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerFileOracleTest,
                         ::testing::Values("spm_llama", "spm_rules", "spm_bare", "tiktoken_gpt2",
                                           "tiktoken_cl100k_base", "tiktoken_o200k_base"));

TEST(TokenizerFileTest, TheLowestRankIsMergedFirst) {
  std::string file;
  auto add = [&, rank = 0](const std::string& token) mutable {
    absl::StrAppend(&file, absl::Base64Escape(token), " ", rank++, "\n");
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  add("bc");
  add("ab");
  add("cd");
  const auto tokenizer = Tokenizer::Parse("gpt2.tiktoken", file, "").value();
  EXPECT_THAT(tokenizer->Encode("abcd", /*special=*/false).value(), ElementsAre('a', 256, 'd'));
  EXPECT_THAT(tokenizer->Encode("abd", /*special=*/false).value(), ElementsAre(257, 'd'));
}

TEST(TokenizerFileTest, OthersAreRefusedByName) {
  const auto error = [](const std::string& contents, const std::string& name = "x.tiktoken") {
    return std::string(Tokenizer::Parse(name, contents, "").status().message());
  };
  EXPECT_THAT(error("YQ== 0\nYg== 1\n"), HasSubstr("x.tiktoken: has 2 ranks, as no encoding that is known: gpt2"));
  EXPECT_THAT(error("YQ== 0\nYg== 2\n"), HasSubstr("line 2: has rank 2; ranks must be 0, 1, 2"));
  EXPECT_THAT(error("YQ== 0\n?? 1\n"), HasSubstr("line 2: must be a token in base64 and its rank"));
  EXPECT_THAT(error("YQ== 0\nYQ== 1\n", "gpt2.tiktoken"), HasSubstr("a token occurs twice, first with rank 0"));
  EXPECT_THAT(error("YQ== 0\nYg== 1\n", "gpt2.tiktoken"), HasSubstr("lacks a token for some byte"));
  // A sentencepiece model: a piece "a", and a trainer's model type.
  const std::string piece("\x0a\x03\x0a\x01\x61", 5);
  EXPECT_THAT(error(piece + std::string("\x12\x02\x18\x01", 4)), HasSubstr("of the kind Unigram is not supported"));
  EXPECT_THAT(error(piece + std::string("\x12\x02\x18\x02", 4)), HasSubstr("has no piece for what is unknown"));
  EXPECT_THAT(error(piece + std::string("\x12\x7f", 2)), HasSubstr("is no sentencepiece model, or is damaged"));
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerOracleTest, ::testing::Values("gpt2", "llama3", "llama2", "metaspace"));

// Wherever a text is cut at a permitted place, its parts have the ids of the whole.
TEST_P(TokenizerOracleTest, CutsChangeNothing) {
  std::string text;
  for (const nlohmann::json& example : fixture_["cases"]) {
    text += example["text"].get<std::string>() + "\nabc.\nDef\n\n x\n y";
  }
  const std::vector<int32_t> whole = tokenizer_->Encode(text, /*special=*/false).value();
  int cuts = 0;
  for (size_t cut = tokenizer_->LastCut(text); cut > 0;
       cut = tokenizer_->LastCut(std::string_view(text).substr(0, cut))) {
    ++cuts;
    std::vector<int32_t> parts = tokenizer_->Encode(text.substr(0, cut), false).value();
    const std::vector<int32_t> rest = tokenizer_->Encode(text.substr(cut), false).value();
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole) << cut;
  }
  const bool byte_level = GetParam() == std::string("gpt2") || GetParam() == std::string("llama3");
  EXPECT_EQ(cuts > 20, byte_level) << cuts;
}

std::string ParseError(const std::string& json) {
  const absl::Status status = BpeTokenizer::Parse(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(status.message());
}

constexpr char kLetters[] = R"({"type":"BPE","vocab":{"a":0,"aa":1,"aaaa":2},"merges":["a a",["aa","aa"]]})";

std::string WithLetters(const std::string& rest) { return std::string(R"({"model":)") + kLetters + "," + rest + "}"; }

TEST(BpeTokenizerTest, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_THAT(ParseError(R"({"model":{"type":"Unigram"}})"), HasSubstr("model.type: \"Unigram\" is not supported"));
  EXPECT_THAT(ParseError(R"({"model":{"vocab":{},"merges":[],"dropout":0.1}})"), HasSubstr("model.dropout"));
  EXPECT_THAT(ParseError(WithLetters(R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Bert"}]})")),
              HasSubstr("normalizer.normalizers[0]: type 'Bert' is not supported"));
  EXPECT_THAT(ParseError(WithLetters(R"("pre_tokenizer":{"type":"Whitespace"})")), HasSubstr("'Whitespace'"));
  EXPECT_THAT(ParseError(WithLetters(R"("decoder":{"type":"CTC"})")), HasSubstr("'CTC'"));
  EXPECT_THAT(ParseError(WithLetters(R"("post_processor":{"type":"BertProcessing"})")), HasSubstr("'BertProcessing'"));
}

TEST(BpeTokenizerTest, MalformedFilesAreOneLine) {
  EXPECT_THAT(ParseError("{}"), HasSubstr("model: is missing"));
  EXPECT_THAT(ParseError(R"({"model":{"vocab":{"a":-1},"merges":[]}})"), HasSubstr("'a'"));
  EXPECT_THAT(ParseError(R"({"model":{"vocab":{"a":0},"merges":["a b"]}})"), HasSubstr("merges[0]"));
  EXPECT_THAT(ParseError(WithLetters(R"("added_tokens":[{"id":4000000000}])")), HasSubstr("added_tokens[0].id"));
  const std::string expression = R"("pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"(a"}})";
  EXPECT_THAT(ParseError(WithLetters(expression)), HasSubstr("pre_tokenizer: Split: regular expression: "));
}

TEST(BpeTokenizerTest, AddedTokensTakeBoundedMemory) {
  // Each of 991 bytes, and normalized to 600 times that: one is found by its normalized text, two are too long
  // together.
  const auto tokens = [](int count) {
    std::string list;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&list, i == 0 ? "" : ",", R"({"id":)", 3 + i, R"(,"content":")", i, std::string(990, 'x'),
                      R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":true})");
    }
    return absl::StrCat(R"("added_tokens":[)", list,
                        R"(],"normalizer":{"type":"Replace","pattern":{"String":"x"},"content":")",
                        std::string(600, 'y'), "\"}");
  };
  EXPECT_THAT(BpeTokenizer::Parse(WithLetters(tokens(1))).value()->Encode("0" + std::string(990, 'x'), false).value(),
              ElementsAre(3));
  EXPECT_THAT(ParseError(WithLetters(tokens(2))),
              HasSubstr("added_tokens: all contents together must have <= 1048576 bytes"));
}

TEST(BpeTokenizerTest, LongWordsMergeAsShortOnes) {
  const auto tokenizer = BpeTokenizer::Parse(std::string(R"({"model":)") + kLetters + "}").value();
  EXPECT_THAT(tokenizer->Encode("aaaaaaa", false).value(), ElementsAre(2, 1, 0));
  const std::vector<int32_t> ids = tokenizer->Encode(std::string((1 << 16) + 3, 'a'), false).value();
  ASSERT_THAT(ids, SizeIs((1 << 14) + 2));
  EXPECT_EQ(ids.front(), 2);
  EXPECT_EQ(ids[1 << 14], 1);
  EXPECT_EQ(ids.back(), 0);
}

TEST(BpeTokenizerTest, TheTokenThatEndsATextIsTheConfigsOrAKnownOne) {
  const auto added = [](const std::string& id, const std::string& content) {
    return R"({"id":)" + id + R"(,"content":")" + content +
           R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
  };
  const std::string json = WithLetters(R"("added_tokens":[)" + added("3", "</s>") + "," + added("4", "<eos>") + "]");
  EXPECT_EQ(BpeTokenizer::Parse(json).value()->end_of_text(), 3);
  EXPECT_EQ(BpeTokenizer::Parse(json, R"({"eos_token":"<eos>"})").value()->end_of_text(), 4);
  EXPECT_EQ(BpeTokenizer::Parse(json, R"({"eos_token":{"content":"aa"}})").value()->end_of_text(), 1);
  EXPECT_EQ(BpeTokenizer::Parse(json, R"({"eos_token":null})").value()->end_of_text(), 3);
  EXPECT_THAT(std::string(BpeTokenizer::Parse(json, R"({"eos_token":"x"})").status().message()),
              HasSubstr("eos_token: 'x' is no token"));
  EXPECT_EQ(BpeTokenizer::Parse(std::string(R"({"model":)") + kLetters + "}").value()->end_of_text(), std::nullopt);
}

TEST(BpeTokenizerTest, IdsOutsideTheVocabularyAreRefused) {
  const auto tokenizer = BpeTokenizer::Parse(std::string(R"({"model":)") + kLetters + "}").value();
  for (int32_t id : {-1, 3}) {
    EXPECT_THAT(std::string(tokenizer->Decode(std::vector<int32_t>{id}, true).status().message()),
                HasSubstr(std::to_string(id)));
  }
}

}  // namespace
}  // namespace zerofleet::text
