// GGUF files made byte by byte: read, dequantized, and refused where they are inconsistent.
#include "worker/checkpoint/gguf.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json_parse.h"
#include "worker/checkpoint/gguf_source.h"
#include "worker/device/dtype.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Appends to a file in GGUF's own order.
class Writer {
 public:
  template <typename T>
  Writer& Number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& Text(const std::string& text) {
    Number<uint64_t>(text.size());
    bytes += text;
    return *this;
  }
  Writer& Fact(const std::string& key, uint32_t value) { return Text(key).Number<uint32_t>(4).Number(value); }
  Writer& Fact(const std::string& key, float value) { return Text(key).Number<uint32_t>(6).Number(value); }
  Writer& Fact(const std::string& key, const std::string& value) { return Text(key).Number<uint32_t>(8).Text(value); }
  Writer& Fact(const std::string& key, const std::vector<std::string>& texts) {
    Text(key).Number<uint32_t>(9).Number<uint32_t>(8).Number<uint64_t>(texts.size());
    for (const std::string& text : texts) Text(text);
    return *this;
  }
  Writer& Header(uint64_t tensors, uint64_t facts, uint32_t version = 3) {
    bytes += "GGUF";
    return Number(version).Number(tensors).Number(facts);
  }
  Writer& Tensor(const std::string& name, const std::vector<uint64_t>& dimensions, uint32_t type, uint64_t offset) {
    Text(name).Number(static_cast<uint32_t>(dimensions.size()));
    for (uint64_t size : dimensions) Number(size);
    return Number(type).Number(offset);
  }
  Writer& Data(size_t count) {
    bytes.resize((bytes.size() + 31) / 32 * 32 + count);
    return *this;
  }

  std::string bytes;
};

absl::StatusOr<GgufFile> Parse(const std::string& bytes) { return ParseGguf(std::as_bytes(std::span(bytes))); }
std::string Error(const std::string& bytes) {
  const absl::Status status = Parse(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  return std::string(status.message());
}

std::string Small() {
  return Writer()
      .Header(2, 3)
      .Fact("a.number", 7u)
      .Fact("a.text", "seven")
      .Fact("texts", std::vector<std::string>{"x", "y"})
      .Tensor("t", {3, 2}, 0, 0)
      .Tensor("q", {32}, 8, 32)
      .Data(24 + 8 + 34)
      .bytes;
}

TEST(GgufTest, FactsAndPlacesAreRead) {
  const GgufFile file = Parse(Small()).value();
  EXPECT_EQ(file.Number("a.number").value(), 7);
  EXPECT_EQ(file.Text("a.text").value(), "seven");
  EXPECT_THAT(*file.Texts("texts"), ElementsAre("x", "y"));
  EXPECT_THAT(std::string(file.Number("gone").status().message()), HasSubstr("gone is missing"));
  EXPECT_THAT(std::string(file.Text("a.number").status().message()), HasSubstr("a.number must be a text"));
  ASSERT_THAT(file.tensors, SizeIs(2));
  EXPECT_THAT(file.tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(file.tensors[0].begin % 32, 0);
  EXPECT_EQ(file.tensors[0].end - file.tensors[0].begin, 24);
  EXPECT_EQ(file.tensors[1].end, static_cast<int64_t>(Small().size()));
}

TEST(GgufTest, EveryBeginningIsRefused) {
  const std::string whole = Small();
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_FALSE(Parse(whole.substr(0, length)).ok()) << length;
}

TEST(GgufTest, WhatCannotBeIsNamed) {
  EXPECT_THAT(Error("GGML...."), HasSubstr("no GGUF file"));
  EXPECT_THAT(Error(Writer().Header(0, 0, 1).bytes), HasSubstr("version 1"));
  EXPECT_THAT(Error(Writer().Header(uint64_t{1} << 40, 0).bytes), HasSubstr("too many"));
  EXPECT_THAT(Error(Writer().Header(1, 0).Tensor("t", {0}, 0, 0).bytes), HasSubstr("a dimension of 0"));
  EXPECT_THAT(Error(Writer().Header(1, 0).Tensor("t", {uint64_t{1} << 30, uint64_t{1} << 30}, 0, 0).bytes),
              HasSubstr("a dimension of"));
  EXPECT_THAT(Error(Writer().Header(1, 0).Tensor("t", {8}, 0, 1 << 20).Data(32).bytes), HasSubstr("beyond the file"));
  EXPECT_THAT(Error(Writer().Header(1, 0).Tensor("t", {8}, 0, UINT64_MAX).Data(32).bytes), HasSubstr("an offset of"));
  EXPECT_THAT(Error(Writer().Header(0, 2).Fact("a", 1u).Fact("a", 1u).bytes), HasSubstr("twice"));
  EXPECT_THAT(Error(Writer().Header(0, 1).Text("a").Number<uint32_t>(99).bytes), HasSubstr("type 99"));
  // An array that claims more elements than the file has bytes.
  for (const uint64_t count : {uint64_t{1} << 20, uint64_t{1} << 60}) {
    Writer bomb;
    bomb.Header(0, 1).Text("a").Number<uint32_t>(9).Number<uint32_t>(8).Number<uint64_t>(count);
    EXPECT_THAT(Error(bomb.bytes), HasSubstr("ends in an array")) << count;
  }
}

std::vector<float> Dequantized(uint32_t type, const std::string& block, int64_t elements) {
  EXPECT_EQ(GgufBytes(type, elements), static_cast<int64_t>(block.size()));
  std::vector<float> values(elements);
  DequantizeGguf(type, reinterpret_cast<const std::byte*>(block.data()), values);
  return values;
}

TEST(GgufTest, BlocksAreDequantized) {
  const auto half = [](float value) { return device::ToF16(value).bits; };
  Writer q8, q40, q41;
  q8.Number(half(0.5f));
  q40.Number(half(2.0f));
  q41.Number(half(2.0f)).Number(half(-1.0f));
  for (int i = 0; i < 32; ++i) q8.Number(static_cast<int8_t>(i - 16));
  for (int i = 0; i < 16; ++i) {
    q40.Number(static_cast<uint8_t>(i | (15 - i) << 4));
    q41.Number(static_cast<uint8_t>(i | (15 - i) << 4));
  }
  const std::vector<float> eight = Dequantized(8, q8.bytes, 32), four = Dequantized(2, q40.bytes, 32),
                           with_least = Dequantized(3, q41.bytes, 32);
  for (int i = 0; i < 32; ++i) {
    const float nibble = static_cast<float>(i < 16 ? i : 31 - i);
    EXPECT_EQ(eight[i], 0.5f * static_cast<float>(i - 16));
    EXPECT_EQ(four[i], 2.0f * (nibble - 8.0f));
    EXPECT_EQ(with_least[i], 2.0f * nibble - 1.0f);
  }
  EXPECT_THAT(Dequantized(1, Writer().Number(half(1.5f)).bytes, 1), ElementsAre(1.5f));
  EXPECT_THAT(Dequantized(0, Writer().Number(1.25f).bytes, 1), ElementsAre(1.25f));
  EXPECT_EQ(GgufBytes(8, 33), -1);
  EXPECT_EQ(GgufBytes(14, 256), -1);
}

// One block of a model with a head of 4 for queries and keys; values count upward through the file.
class GgufSourceTest : public ::testing::Test {
 protected:
  void SetUp() override { path_ = ::testing::TempDir() + "gguf_source_" + std::to_string(getpid()) + ".gguf"; }
  void TearDown() override { RemoveOne(path_).IgnoreError(); }

  struct Options {
    std::string kind = "llama", split = "smollm";
    uint32_t rotated = 4, type_of_queries = 0;
    std::vector<std::string> tokens = {"a", "b", "ab"};
  };
  std::string Write(const Options& options) {
    Writer writer;
    const std::string& kind = options.kind;
    writer.Header(2, 13)
        .Fact("general.architecture", kind)
        .Fact(kind + ".block_count", 1u)
        .Fact(kind + ".embedding_length", 4u)
        .Fact(kind + ".attention.head_count", 1u)
        .Fact(kind + ".feed_forward_length", 6u)
        .Fact(kind + ".context_length", 16u)
        .Fact(kind + ".attention.layer_norm_rms_epsilon", 1e-5f)
        .Fact(kind + ".rope.dimension_count", options.rotated)
        .Fact("tokenizer.ggml.model", "gpt2")
        .Fact("tokenizer.ggml.pre", options.split)
        .Fact("tokenizer.ggml.tokens", options.tokens)
        .Fact("tokenizer.ggml.merges", std::vector<std::string>{"a b"})
        .Fact("tokenizer.ggml.eos_token_id", 1u)
        .Tensor("token_embd.weight", {4, 3}, 0, 0)
        .Tensor("blk.0.attn_q.weight", {4, 4}, options.type_of_queries, 64)
        .Data(64 + 64);
    for (int i = 0; i < 16; ++i) {
      const auto value = static_cast<float>(i);
      std::memcpy(writer.bytes.data() + writer.bytes.size() - 64 + 4 * i, &value, sizeof value);
    }
    std::ofstream(path_, std::ios::binary) << writer.bytes;
    return path_;
  }
  std::string OpenError(const Options& options) {
    return std::string(GgufSource::Open(Write(options)).status().message());
  }

  std::string path_;
};

TEST_F(GgufSourceTest, RowsOfQueriesAreHuggingFacesOnes) {
  const auto source = GgufSource::Open(Write({})).value();
  EXPECT_EQ(source->model().vocab(), 3);
  EXPECT_EQ(source->model().norm_epsilon(), 1e-5);
  EXPECT_TRUE(source->model().tied());
  std::vector<float> queries(16);
  ASSERT_TRUE(source->Read("layers.0.self_attn.q_proj.weight", {4, 4}, queries).ok());
  // Rows 0 and 1 of the file are rotated together: they are our rows 0 and 2.
  EXPECT_THAT(queries, ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15));
  const auto qwen = GgufSource::Open(Write({.kind = "qwen2"})).value();
  EXPECT_TRUE(qwen->model().qkv_bias());
  EXPECT_TRUE(GgufSource::Open(Write({.kind = "qwen3"})).value()->model().qk_norm());
  ASSERT_TRUE(qwen->Read("layers.0.self_attn.q_proj.weight", {4, 4}, queries).ok());
  EXPECT_EQ(queries[4], 4);
}

TEST_F(GgufSourceTest, WhatIsNotSupportedIsNamed) {
  EXPECT_THAT(OpenError({.kind = "mamba"}), HasSubstr("general.architecture is 'mamba'"));
  EXPECT_THAT(OpenError({.rotated = 2}), HasSubstr("llama.rope.dimension_count is 2"));
  const auto source = GgufSource::Open(Write({.type_of_queries = 14})).value();
  EXPECT_THAT(std::string(source->Check("layers.0.self_attn.q_proj.weight", {4, 4}).message()),
              HasSubstr("blk.0.attn_q.weight': type 14, which is not read"));
  EXPECT_THAT(std::string(source->Check("layers.0.self_attn.q_proj.weight", {4, 5}).message()),
              HasSubstr("shape (4, 4)"));
  EXPECT_THAT(std::string(source->Check("norm.weight", {4}).message()), HasSubstr("no tensor 'norm.weight'"));
}

TEST_F(GgufSourceTest, ItsTokenizerIsThatOfAFolder) {
  const TokenizerFiles files = GgufSource::Open(Write({})).value()->Tokenizer().value();
  ASSERT_THAT(files, SizeIs(2));
  const nlohmann::json json = ParseJson(files[0].contents).value(), config = ParseJson(files[1].contents).value();
  EXPECT_EQ(json["pre_tokenizer"]["pretokenizers"][0]["type"], "Digits");
  EXPECT_EQ(json["model"]["vocab"]["ab"], 2);
  EXPECT_EQ(config["eos_token"], "b");
  EXPECT_THAT(GgufSource::Open(Write({.split = "unheard-of"})).value()->Tokenizer().value(), IsEmpty());
}

// Tokens are listed in the order of their ids, each once. A vocabulary as large as a real one takes no longer for a
// token than a small one: with a search for each it took a minute.
TEST_F(GgufSourceTest, ALargeVocabularyIsListedInOrder) {
  std::vector<std::string> tokens = {"b", "a", "ab"};
  EXPECT_THAT(GgufSource::Open(Write({.tokens = tokens})).value()->Tokenizer().value()[0].contents,
              HasSubstr(R"("vocab":{"b":0,"a":1,"ab":2})"));
  for (int i = 3; i < 40000; ++i) tokens.push_back(absl::StrCat("token ", i));
  const TokenizerFiles files = GgufSource::Open(Write({.tokens = tokens})).value()->Tokenizer().value();
  EXPECT_EQ(ParseJson(files[0].contents).value()["model"]["vocab"]["token 39999"], 39999);
  tokens.back() = "a";
  EXPECT_THAT(std::string(GgufSource::Open(Write({.tokens = tokens})).value()->Tokenizer().status().message()),
              HasSubstr("a token stands there twice"));
}

}  // namespace
}  // namespace zerofleet::checkpoint
