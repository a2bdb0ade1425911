// GPT-2's rows make the table that published weights have, and cut it by heads.
#include "worker/model/families/gpt2.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/declared_units.h"
#include "worker/model/model_testing.h"
#include "worker/model/spec.h"

namespace zerofleet::model {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> NamesOf(const Declaration& unit) {
  std::vector<std::string> names;
  for (const DeclaredTensor& tensor : unit.tensors()) names.push_back(tensor.name);
  return names;
}

TEST(Gpt2Family, HasTheTensorsOfTransformersInTheirOrder) {
  const DeclaredUnits units = DeclareUnits(kGpt2Family.rows, Sizes(TestModelConfig(2, 12, 3, 7, 31)));
  EXPECT_THAT(NamesOf(units.embedding), ElementsAre("wte.weight", "wpe.weight"));
  EXPECT_THAT(NamesOf(units.block),
              ElementsAre("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
                          "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias",
                          "mlp.c_proj.weight", "mlp.c_proj.bias"));
  EXPECT_THAT(NamesOf(units.head), ElementsAre("ln_f.weight", "ln_f.bias"));
  const ModelSpec spec = *ModelSpec::Create(TestModelConfig(2, 12, 3, 7, 31));
  EXPECT_EQ(spec.tensors()[2].name, "transformer.h.0.ln_1.weight");
  EXPECT_EQ(spec.tensors()[14].name, "transformer.h.1.ln_1.weight");
  EXPECT_EQ(spec.tensors().back().name, "transformer.ln_f.bias");
}

TEST(Gpt2Family, TheTwoProjectionsIntoTheResidualStartSmaller) {
  const ModelSpec spec = *ModelSpec::Create(TestModelConfig(2, 12, 3, 7, 31));
  for (const TensorSpec& tensor : spec.tensors()) {
    EXPECT_EQ(tensor.init == Init::kResidualProjection, tensor.name.ends_with("c_proj.weight")) << tensor.name;
  }
}

// transformers stores those weights as Conv1D.
TEST(Gpt2Family, OnlyTheWeightsOfABlocksProductsAreStoredTransposed) {
  EXPECT_TRUE(kGpt2Family.hugging_face.transposes_products);
  const ModelSpec spec = *ModelSpec::Create(TestModelConfig(2, 12, 3, 7, 31));
  for (const TensorSpec& tensor : spec.tensors()) {
    const bool block_matrix = tensor.name.starts_with("transformer.h.") && tensor.shape.size() == 2;
    EXPECT_EQ(tensor.projects, block_matrix) << tensor.name;
  }
}

TEST(Gpt2Family, KnowsTheMasksThatAreNoWeights) {
  EXPECT_TRUE(kGpt2Family.hugging_face.IsBuffer("h.3.attn.bias"));
  EXPECT_TRUE(kGpt2Family.hugging_face.IsBuffer("h.3.attn.masked_bias"));
  EXPECT_FALSE(kGpt2Family.hugging_face.IsBuffer("h.3.attn.c_attn.bias"));
}

}  // namespace
}  // namespace zerofleet::model
