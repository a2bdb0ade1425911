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
  for (const char* setting : {R"("model_type":"llama")", R"("activation_function":"relu")",
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

}  // namespace
}  // namespace zerofleet::checkpoint
