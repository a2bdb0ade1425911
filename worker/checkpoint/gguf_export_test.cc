// A Llama of each architecture, exported to GGUF and imported again: names, rows, values, tokenizer.
#include "worker/checkpoint/gguf_export.h"

#include <map>

#include "gmock/gmock.h"
#include "proto/json_parse.h"
#include "worker/checkpoint/gguf_source.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/huggingface_source.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr char kSmallTokenizer[] = R"({"version":"1.0","added_tokens":[{"id":3,"content":"<end>","single_word":false,
    "lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":null,
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
      {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":true}]},
    "post_processor":null,"decoder":{"type":"ByteLevel"},
    "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}})";

class GgufExportTest : public CheckpointTest {
 protected:
  static v1::ModelConfig Llama() {
    v1::ModelConfig model;
    model.set_family("llama");
    model.set_layers(2);
    model.set_hidden(12);
    model.set_heads(3);
    model.set_kv_heads(1);
    model.set_head_size(4);
    model.set_intermediate(10);
    model.set_context(8);
    model.set_vocab(6);
    model.set_rope_theta(500);
    model.mutable_rope_scaling()->set_type("none");
    model.set_norm_epsilon(1e-5);
    return model;
  }

  // The value of the model's element `i`, which bf16 cannot hold exactly.
  float Weight(int64_t i) const { return scale_ * (1.0f + static_cast<float>(i) * 0.001f); }
  static int64_t FinalNormsPlace() {
    const model::ModelSpec spec = model::ModelSpec::Create(Llama()).value();
    return spec.tensors()[spec.tensors().size() - 2].flat_begin;
  }
  float scale_ = 1;

  // Writes the model's Hugging Face directory, and imports it.
  std::string Checkpoint(const v1::ModelConfig& model, const std::string& tokenizer = "") {
    const std::string hf = Path("hf"), step_dir = Path("in/step-00000000");
    EXPECT_TRUE(RemoveTree(hf).ok() && RemoveTree(Path("in")).ok() && CreateDirectories(hf).ok());
    const model::ModelSpec spec = model::ModelSpec::Create(model).value();
    std::vector<SafetensorsTensor> tensors;
    std::string data;
    for (const model::TensorSpec& tensor : spec.tensors()) {
      tensors.push_back({tensor.name, "F32", tensor.shape});
      for (int64_t i = tensor.flat_begin; i < tensor.flat_end; ++i) {
        const float value = Weight(i);
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
    }
    Overwrite(hf + "/model.safetensors", EncodeSafetensorsHeader(tensors) + data);
    Overwrite(hf + "/config.json", HuggingFaceConfigText(**model::FindModelFamily("llama"), model));
    if (!tokenizer.empty()) {
      Overwrite(hf + "/tokenizer.json", tokenizer);
      Overwrite(hf + "/tokenizer_config.json", R"({"eos_token":{"content":"<end>"},"chat_template":"{{ x }}"})");
    }
    const absl::Status imported = ImportModel(hf, step_dir, SmallConfig(), {"test", 1});
    EXPECT_TRUE(imported.ok()) << imported;
    return step_dir;
  }
};

TEST_F(GgufExportTest, EveryArchitectureComesBackAsItWas) {
  v1::ModelConfig tied = Llama(), biased = Llama(), normed = Llama();
  tied.set_tied(true);
  biased.set_qkv_bias(true);
  normed.set_qk_norm(true);
  for (const v1::ModelConfig& model : {Llama(), tied, biased, normed}) {
    const std::string step_dir = Checkpoint(model);
    const model::ModelSpec spec = model::ModelSpec::Create(model).value();
    for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16, device::DType::kF16}) {
      ASSERT_TRUE(RemoveTree(Path("out.gguf")).ok());
      const absl::Status exported = ExportGguf(step_dir, Path("out.gguf"), dtype);
      ASSERT_TRUE(exported.ok()) << exported;
      const auto source = GgufSource::Open(Path("out.gguf"));
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ((*source)->model().DebugString(), model.DebugString());
      for (const model::TensorSpec& tensor : spec.tensors()) {
        std::vector<float> values(tensor.elements());
        const std::string name = tensor.name.starts_with("model.") ? tensor.name.substr(6) : tensor.name;
        const absl::Status read = (*source)->Read(name, tensor.shape, values);
        ASSERT_TRUE(read.ok()) << read;
        const bool whole = dtype == device::DType::kF32 || tensor.shape.size() == 1;
        for (int64_t i = 0; i < tensor.elements(); ++i) {
          const float wanted = Weight(tensor.flat_begin + i);
          const float rounded = dtype == device::DType::kBF16 ? device::ToFloat(device::ToBF16(wanted))
                                                              : device::ToFloat(device::ToF16(wanted));
          ASSERT_EQ(values[i], whole ? wanted : rounded) << tensor.name << " " << i;
        }
      }
    }
  }
}

// llama.cpp stores the divisors of frequencies. Tests waves of all of Llama 3's lengths, and waves so short that none
// reaches the factor.
TEST_F(GgufExportTest, TheScalingOfLlama3ComesBack) {
  const auto scaled = [](double theta, double factor) {
    v1::ModelConfig model = Llama();
    model.set_rope_theta(theta);
    model.mutable_rope_scaling()->set_type("llama3");
    model.mutable_rope_scaling()->set_factor(factor);
    model.mutable_rope_scaling()->set_low_freq_factor(1);
    model.mutable_rope_scaling()->set_high_freq_factor(4);
    model.mutable_rope_scaling()->set_original_max_position_embeddings(8192);
    return model;
  };
  const auto back = [this](const v1::ModelConfig& model) {
    EXPECT_TRUE(RemoveTree(Path("out.gguf")).ok());
    EXPECT_TRUE(ExportGguf(Checkpoint(model), Path("out.gguf"), device::DType::kF32).ok());
    return GgufSource::Open(Path("out.gguf"));
  };
  for (const v1::ModelConfig& model : {scaled(2e6, 8), scaled(2e6, 5), scaled(5e5, 8), scaled(5e5, 32)}) {
    const auto source = back(model);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->model().DebugString(), model.DebugString());
    EXPECT_FALSE((*source)->Has("rope_freqs.weight"));
  }
  EXPECT_EQ(back(scaled(500, 8)).value()->model().rope_scaling().type(), "none");  // no wave is long
  v1::ModelConfig other = scaled(5e5, 8);
  other.mutable_rope_scaling()->set_high_freq_factor(3);
  EXPECT_THAT(std::string(back(other).status().message()), HasSubstr("otherwise than Llama 3 does"));
}

TEST_F(GgufExportTest, TheTokenizerComesAlong) {
  const std::string step_dir = Checkpoint(Llama(), kSmallTokenizer);
  ASSERT_TRUE(ExportGguf(step_dir, Path("out.gguf"), device::DType::kBF16).ok());
  const TokenizerFiles files = GgufSource::Open(Path("out.gguf")).value()->Tokenizer().value();
  ASSERT_EQ(files.size(), 2u);
  const nlohmann::json json = ParseJson(files[0].contents).value(), config = ParseJson(files[1].contents).value();
  EXPECT_EQ(json["model"]["vocab"], (nlohmann::json{{"a", 0}, {"b", 1}, {"ab", 2}, {"<end>", 3}}));
  EXPECT_EQ(json["model"]["merges"], nlohmann::json::parse(R"(["a b"])"));
  EXPECT_EQ(json["added_tokens"][0]["content"], "<end>");
  EXPECT_EQ(config["eos_token"], "<end>");
  EXPECT_EQ(config["chat_template"], "{{ x }}");

  std::string other = kSmallTokenizer;
  other.replace(other.find("\"individual_digits\":true"), 24, "\"individual_digits\":false");
  const absl::Status refused = ExportGguf(Checkpoint(Llama(), other), Path("other.gguf"), device::DType::kF32);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("splits text in a way"));
  EXPECT_FALSE(FileExists(Path("other.gguf")));
}

TEST_F(GgufExportTest, WhatCannotBeWrittenIsRefused) {
  const absl::Status gpt2 = ExportGguf(Save(9, 2), Path("out.gguf"), device::DType::kF32);
  EXPECT_EQ(gpt2.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(gpt2.message()), HasSubstr("its model is gpt2"));
  Overwrite(Path("out.gguf"), "mine");
  EXPECT_EQ(ExportGguf(Checkpoint(Llama()), Path("out.gguf"), device::DType::kF32).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GgufExportTest, AWeightBeyondItsTypeIsNamed) {
  ASSERT_TRUE(ExportHuggingFace(Checkpoint(Llama()), Path("half"), device::DType::kF16).ok());
  const auto half = HuggingFaceSource::Open(Path("half"), (*model::FindModelFamily("llama"))->hugging_face);
  std::vector<float> values(12);
  ASSERT_TRUE(half->Read("norm.weight", {12}, values).ok());
  EXPECT_EQ(values[0], device::ToFloat(device::ToF16(Weight(FinalNormsPlace()))));
  EXPECT_EQ(ParseJson(Contents(Path("half/config.json")))->at("torch_dtype"), "float16");

  scale_ = 1e6f;
  const absl::Status beyond = ExportHuggingFace(Checkpoint(Llama()), Path("beyond"), device::DType::kF16);
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("tensor 'model.embed_tokens.weight': element 0 is 1e+06"));
  EXPECT_FALSE(FileExists(Path("beyond/model.safetensors")));
}

}  // namespace
}  // namespace zerofleet::checkpoint
