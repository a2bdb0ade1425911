// config.json both ways, and the variants that are refused by key.
#include "worker/checkpoint/huggingface_config.h"

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr char kSizes[] = R"("vocab_size":50257,"n_positions":1024,"n_embd":768,"n_layer":12,"n_head":12)";

std::string Error(const std::string& text, absl::StatusCode code) {
  absl::Status status = ParseHuggingFaceConfig(text).status();
  EXPECT_EQ(status.code(), code) << text;
  return std::string(status.message());
}

TEST(HuggingFaceConfigTest, ReadsBackWhatItWrites) {
  v1::ModelConfig model = ParseHuggingFaceConfig(std::string("{") + kSizes + "}").value();
  EXPECT_EQ(model.intermediate(), 4 * 768);
  EXPECT_EQ(model.kv_heads(), 12);
  EXPECT_EQ(model.family(), "gpt2");
  model.set_intermediate(1000);
  auto back = ParseHuggingFaceConfig(HuggingFaceConfigText(**model::FindModelFamily("gpt2"), model));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(model, *back));
}

TEST(HuggingFaceConfigTest, EndOfTextOnlyWhereTheVocabularyHasOne) {
  v1::ModelConfig model;
  model.set_vocab(50257);
  EXPECT_THAT(HuggingFaceConfigText(**model::FindModelFamily("gpt2"), model), HasSubstr("\"eos_token_id\": 50256"));
  model.set_vocab(256);
  EXPECT_THAT(HuggingFaceConfigText(**model::FindModelFamily("gpt2"), model), HasSubstr("\"eos_token_id\": null"));
}

TEST(HuggingFaceConfigTest, OtherArithmeticIsRefusedByKey) {
  for (const char* setting : {R"("model_type":"mamba")", R"("activation_function":"relu")",
                              R"("layer_norm_epsilon":1e-6)", R"("tie_word_embeddings":false)",
                              R"("scale_attn_weights":false)", R"("scale_attn_by_inverse_layer_idx":true)"}) {
    std::string text = std::string("{") + kSizes + "," + setting + "}";
    std::string key = std::string(setting).substr(1, std::string(setting).find(':') - 2);
    EXPECT_THAT(Error(text, absl::StatusCode::kInvalidArgument), HasSubstr(key + " is "));
  }
}

TEST(HuggingFaceConfigTest, SizesMustBeThere) {
  EXPECT_THAT(Error(R"({"vocab_size":10})", absl::StatusCode::kDataLoss), HasSubstr("n_positions is missing"));
  EXPECT_THAT(Error(R"({"vocab_size":-10})", absl::StatusCode::kDataLoss), HasSubstr("vocab_size"));
  EXPECT_THAT(Error(std::string("{") + kSizes + R"(,"n_inner":0})", absl::StatusCode::kDataLoss), HasSubstr("n_inner"));
  EXPECT_THAT(Error("[]", absl::StatusCode::kDataLoss), HasSubstr("not a JSON object"));
  EXPECT_THAT(Error("", absl::StatusCode::kDataLoss), HasSubstr("not valid JSON"));
}

constexpr char kLlamaSizes[] =
    R"("model_type":"llama","vocab_size":31,"max_position_embeddings":16,"hidden_size":12,"num_hidden_layers":2,)"
    R"("num_attention_heads":6,"num_key_value_heads":2,"intermediate_size":20)";

absl::StatusOr<v1::ModelConfig> Llama(const std::string& more) {
  return ParseHuggingFaceConfig(std::string("{") + kLlamaSizes + more + "}");
}

TEST(HuggingFaceConfigTest, LlamasAreReadAsBothVersionsWriteThem) {
  const v1::ModelConfig plain = Llama("").value();
  EXPECT_EQ(plain.head_size(), 2);
  EXPECT_EQ(plain.rope_theta(), 1e4);
  EXPECT_EQ(plain.norm_epsilon(), 1e-6);
  EXPECT_FALSE(plain.tied());
  const std::string llama3 = R"("rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,)"
                             R"("original_max_position_embeddings":8192)";
  const v1::ModelConfig old = Llama(R"(,"rope_theta":5e5,"rope_scaling":{)" + llama3 + "}").value();
  EXPECT_EQ(old.rope_scaling().type(), "llama3");
  const v1::ModelConfig later = Llama(R"(,"rope_parameters":{"rope_theta":5e5,)" + llama3 + "}").value();
  EXPECT_EQ(old.DebugString(), later.DebugString());
  for (const v1::ModelConfig& model : {plain, old}) {
    const auto back = ParseHuggingFaceConfig(HuggingFaceConfigText(**model::FindModelFamily("llama"), model));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->DebugString(), model.DebugString());
  }
  v1::ModelConfig qwen = plain;
  qwen.set_qkv_bias(true);
  const std::string text = HuggingFaceConfigText(**model::FindModelFamily("llama"), qwen);
  EXPECT_THAT(text, HasSubstr("Qwen2ForCausalLM"));
  EXPECT_TRUE(ParseHuggingFaceConfig(text)->qkv_bias());
  qwen.set_qkv_bias(false);
  qwen.set_qk_norm(true);
  const std::string third = HuggingFaceConfigText(**model::FindModelFamily("llama"), qwen);
  EXPECT_THAT(third, HasSubstr("Qwen3ForCausalLM"));
  EXPECT_TRUE(ParseHuggingFaceConfig(third)->qk_norm());
}

TEST(HuggingFaceConfigTest, WhatChangesALlamasFunctionIsRefusedByName) {
  for (const auto& [more, named] :
       {std::pair<const char*, const char*>{R"(,"sliding_window":8)", "sliding_window is 8"},
        {R"(,"partial_rotary_factor":0.5)", "partial_rotary_factor is 0.5"},
        {R"(,"rope_scaling":{"rope_type":"yarn","factor":2})", "rope_scaling is of type 'yarn'"},
        {R"(,"hidden_act":"gelu")", "hidden_act is "},
        {R"(,"attention_bias":true)", "attention_bias is "}}) {
    const absl::Status status = Llama(more).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << more;
    EXPECT_THAT(std::string(status.message()), HasSubstr(named));
  }
  EXPECT_TRUE(Llama(R"(,"sliding_window":16)").ok());
  EXPECT_TRUE(Llama(R"(,"sliding_window":8,"use_sliding_window":false)").ok());
  for (const char* more : {R"(,"rms_norm_eps":-1)", R"(,"rope_theta":"x")", R"(,"rope_scaling":[])"}) {
    EXPECT_EQ(Llama(more).status().code(), absl::StatusCode::kDataLoss) << more;
  }
}

}  // namespace
}  // namespace zerofleet::checkpoint
