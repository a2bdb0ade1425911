// The table of families: each row is complete, and other names are refused.
#include "worker/model/families.h"

#include <set>
#include <span>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/model.h"
#include "worker/model/model_testing.h"
#include "worker/model/presets.h"
#include "worker/model/spec.h"

namespace zerofleet::model {
namespace {

using ::testing::HasSubstr;

TEST(ModelFamilies, EveryRowIsComplete) {
  std::set<std::string> names;
  for (const ModelFamily* family : ModelFamilies()) {
    EXPECT_TRUE(names.insert(family->name).second) << family->name;
    EXPECT_GE(family->inner_per_hidden, 0);
    EXPECT_TRUE(family->rows.embedding.tokens && family->rows.head.norm.name);
    const HuggingFaceFormat& format = family->hugging_face;
    EXPECT_TRUE(format.constants);
    for (const HuggingFaceFormat::Variant& variant : format.variants) {
      EXPECT_TRUE(variant.model_type && variant.architecture);
      EXPECT_TRUE(names.insert(variant.model_type).second || variant.model_type == std::string_view(family->name));
    }
    EXPECT_FALSE(format.variants.empty());
    EXPECT_FALSE(format.sizes.empty());
  }
}

// Each branch begins with a norm and ends with a product into the stream.
TEST(ModelFamilies, EveryBlockIsBranches) {
  for (const ModelFamily* family : ModelFamilies()) {
    const std::span<const BlockRow> rows = family->rows.block;
    ASSERT_FALSE(rows.empty());
    for (size_t i = 0; i < rows.size(); ++i) {
      const bool begins = i == 0 || std::holds_alternative<Project>(rows[i - 1]);
      EXPECT_EQ(std::holds_alternative<Norm>(rows[i]), begins) << family->name << ", row " << i;
    }
    EXPECT_TRUE(std::holds_alternative<Project>(rows.back()));
  }
}

TEST(ModelFamilies, EveryPresetIsOfOne) {
  for (const ModelPreset& preset : ModelPresets()) EXPECT_TRUE(FindModelFamily(preset.family).ok()) << preset.name;
}

TEST(ModelFamilies, AnUnknownFamilyIsNamed) {
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  v1::ModelConfig config = TestModelConfig(1, 8, 2, 4, 11);
  config.set_family("mamba");
  EXPECT_THAT(std::string(Model::Create(config, {device::DType::kF32, 1, 4}, *device).status().message()),
              HasSubstr("model.family is 'mamba'; this version trains gpt2, llama"));
  EXPECT_THAT(std::string(ModelSpec::Create(config).status().message()), HasSubstr("mamba"));
}

}  // namespace
}  // namespace zerofleet::model
