// Llama's rows make the table that published weights have; their gradients are those of the loss.
#include "worker/model/families/llama.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/checkpointing.h"
#include "worker/model/families.h"
#include "worker/model/model.h"
#include "worker/model/model_testing.h"
#include "worker/model/rotary.h"
#include "worker/model/spec.h"

namespace zerofleet::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ModelConfig SmallLlama() {
  v1::ModelConfig config = TestModelConfig(2, 12, 6, 7, 31);
  config.set_family("llama");
  config.set_kv_heads(2);
  config.set_head_size(4);  // not hidden / heads
  config.set_intermediate(10);
  config.set_rope_theta(100);
  config.set_norm_epsilon(1e-5);
  return config;
}

std::vector<std::string> NamesOf(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : spec.tensors()) names.push_back(tensor.name);
  return names;
}

TEST(LlamaFamily, HasTheTensorsOfTransformers) {
  v1::ModelConfig config = SmallLlama();
  config.set_layers(1);
  const std::string block = "model.layers.0.";
  EXPECT_THAT(
      NamesOf(*ModelSpec::Create(config)),
      ElementsAre("model.embed_tokens.weight", block + "input_layernorm.weight", block + "self_attn.q_proj.weight",
                  block + "self_attn.k_proj.weight", block + "self_attn.v_proj.weight",
                  block + "self_attn.o_proj.weight", block + "post_attention_layernorm.weight",
                  block + "mlp.gate_proj.weight", block + "mlp.up_proj.weight", block + "mlp.down_proj.weight",
                  "model.norm.weight", "lm_head.weight"));
  config.set_tied(true);
  EXPECT_EQ(NamesOf(*ModelSpec::Create(config)).back(), "model.norm.weight");
  config.set_qkv_bias(true);
  EXPECT_THAT(NamesOf(*ModelSpec::Create(config)), ::testing::Contains(block + "self_attn.v_proj.bias"));
  config.set_qkv_bias(false);
  config.set_qk_norm(true);
  EXPECT_THAT(NamesOf(*ModelSpec::Create(config)), ::testing::Contains(block + "self_attn.q_norm.weight"));
  EXPECT_THAT(NamesOf(*ModelSpec::Create(config)), ::testing::Contains(block + "self_attn.k_norm.weight"));
}

TEST(LlamaFamily, SizesThatDoNotFitAreNamed) {
  const auto error = [](const auto& change) {
    v1::ModelConfig config = SmallLlama();
    change(config);
    return std::string(ModelSpec::Create(config).status().message());
  };
  EXPECT_THAT(error([](v1::ModelConfig& c) { c.set_kv_heads(4); }), HasSubstr("model.kv_heads is 4"));
  EXPECT_THAT(error([](v1::ModelConfig& c) { c.set_head_size(5); }), HasSubstr("model.head_size is 5"));
  EXPECT_THAT(error([](v1::ModelConfig& c) { c.set_rope_theta(0); }), HasSubstr("model.rope_theta is 0"));
}

// transformers 4.45's figures for theta 500000, a head of 64, a factor of 32 from 8192 positions.
TEST(LlamaFamily, FrequenciesAreScaledAsTransformersScales) {
  v1::RopeScalingConfig scaling;
  const std::vector<float> plain = RotaryFrequencies(64, 5e5, scaling);
  EXPECT_EQ(plain.front(), 1.0f);
  EXPECT_NEAR(plain.back(), 3.0139e-6, 1e-9);
  scaling.set_type("linear");
  scaling.set_factor(4);
  EXPECT_EQ(RotaryFrequencies(64, 5e5, scaling)[5], plain[5] / 4);
  scaling.set_type("llama3");
  scaling.set_factor(32);
  scaling.set_low_freq_factor(1);
  scaling.set_high_freq_factor(4);
  scaling.set_original_max_position_embeddings(8192);
  const std::vector<float> scaled = RotaryFrequencies(64, 5e5, scaling);
  EXPECT_EQ(scaled.front(), 1.0f);  // a wave of 6 positions
  EXPECT_EQ(scaled.back(), plain.back() / 32);
  bool between = false;
  for (size_t i = 0; i < plain.size(); ++i) between |= scaled[i] < plain[i] && scaled[i] > plain[i] / 32;
  EXPECT_TRUE(between);
}

class LlamaGradientTest : public ::testing::TestWithParam<Checkpointing> {};

TEST_P(LlamaGradientTest, IsThatOfTheLoss) {
  for (const bool tied : {false, true}) {
    v1::ModelConfig config = SmallLlama();
    config.set_tied(tied);
    config.set_qkv_bias(tied);
    config.set_qk_norm(!tied);
    const ModelSpec spec = *ModelSpec::Create(config);
    std::vector<int64_t> begins;
    for (const coordinator::UnitExtent& unit : spec.units()) begins.push_back(unit.flat_begin);
    MemoryParameters parameters(begins, spec.parameters());
    const auto device = *device::CreateDevice({.kind = "cpu", .threads = 2});
    const auto stream = *device->CreateStream();
    const auto model = *Model::Create(
        config, {.dtype = device::DType::kF32, .sequences = 2, .time = 7, .checkpointing = GetParam()}, *device);
    std::vector<std::byte> activations(model->ActivationBytes()), scratch(model->ScratchBytes());
    model->SetMemory({activations.data(), scratch.data()});
    std::mt19937 random(3);
    std::vector<int32_t> tokens(20);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % config.vocab());
    const MicroBatch batch = {2, 5, tokens.data(), tokens.data() + 10};
    constexpr float kUnscaled = 1.0f;
    double loss = 0;
    ASSERT_TRUE(model->Train(batch, &kUnscaled, parameters, *stream, &loss, [] {}).ok());
    EXPECT_TRUE(parameters.AllReleased());
    for (const TensorSpec& tensor : spec.tensors()) {
      ExpectGradientOf(tensor.name, tensor.flat_begin, tensor.elements(), parameters, [&] {
        double at = 0;
        EXPECT_TRUE(model->Evaluate(batch, parameters, *stream, &at).ok());
        return at;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, LlamaGradientTest,
                         ::testing::Values(Checkpointing{}, Checkpointing{.selective = true},
                                           Checkpointing{.segment = 1}));

}  // namespace
}  // namespace zerofleet::model
