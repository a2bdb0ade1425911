// The table of families: each row is complete, and what is made from it refuses other names.
#include "worker/model/families.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/model/presets.h"

namespace zerofleet::model {
namespace {

using ::testing::HasSubstr;

TEST(ModelFamilies, EveryRowIsComplete) {
  std::set<std::string> names;
  for (const ModelFamily* family : ModelFamilies()) {
    EXPECT_TRUE(names.insert(family->name).second) << family->name;
    EXPECT_TRUE(family->default_intermediate && family->add_tensors && family->flops_per_token && family->create);
    const HuggingFaceFormat& format = family->hugging_face;
    EXPECT_TRUE(format.model_type && format.architecture && format.constants && format.is_transposed &&
                format.is_buffer);
    EXPECT_FALSE(format.sizes.empty());
    EXPECT_FALSE(format.embedding.empty());
  }
}

TEST(ModelFamilies, EveryPresetIsOfOne) {
  for (const ModelPreset& preset : ModelPresets()) EXPECT_TRUE(FindModelFamily(preset.family).ok()) << preset.name;
}

TEST(ModelFamilies, AnUnknownFamilyIsNamed) {
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  v1::ModelConfig config = TestModelConfig(1, 8, 2, 4, 11);
  config.set_family("mamba");
  EXPECT_THAT(std::string(Model::Create(config, device::DType::kF32, *device, 1, 4).status().message()),
              HasSubstr("model.family is 'mamba'; this version trains gpt2"));
  EXPECT_THAT(std::string(ModelSpec::Create(config).status().message()), HasSubstr("mamba"));
}

TEST(Gpt2Family, OnlyTheFourProjectionsAreStoredTransposed) {
  const HuggingFaceFormat& format = (*FindModelFamily("gpt2"))->hugging_face;
  for (const char* name : {"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"}) {
    EXPECT_TRUE(format.is_transposed(std::string("transformer.h.3.") + name)) << name;
  }
  for (const char* name : {"transformer.wte.weight", "transformer.h.0.ln_1.weight", "transformer.h.0.mlp.c_fc.bias"}) {
    EXPECT_FALSE(format.is_transposed(name)) << name;
  }
}

}  // namespace
}  // namespace zerofleet::model
