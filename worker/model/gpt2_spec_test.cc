// The offsets a pass uses agree with the table everything else uses.
#include "worker/model/gpt2_spec.h"

#include <map>
#include <string>

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet::model {
namespace {

TEST(Gpt2Spec, OffsetsMatchTheTensorTable) {
  v1::ModelConfig config = TestModelConfig(2, 12, 3, 7, 31);
  ModelSpec spec = *ModelSpec::Create(config);
  std::map<std::string, int64_t> in_unit;
  for (const TensorSpec& tensor : spec.tensors()) {
    in_unit[tensor.name] = tensor.flat_begin - spec.units()[tensor.unit].flat_begin;
  }
  Gpt2EmbeddingOffsets embedding(config);
  EXPECT_EQ(in_unit.at("transformer.wte.weight"), embedding.wte);
  EXPECT_EQ(in_unit.at("transformer.wpe.weight"), embedding.wpe);
  EXPECT_EQ(spec.units()[0].elements(), embedding.end);
  Gpt2BlockOffsets block(config);
  EXPECT_EQ(in_unit.at("transformer.h.1.attn.c_attn.weight"), block.c_attn_weight);
  EXPECT_EQ(in_unit.at("transformer.h.1.attn.c_proj.bias"), block.attn_proj_bias);
  EXPECT_EQ(in_unit.at("transformer.h.1.ln_2.weight"), block.ln_2_weight);
  EXPECT_EQ(in_unit.at("transformer.h.1.mlp.c_proj.bias"), block.mlp_proj_bias);
  EXPECT_EQ(spec.units()[2].elements(), block.end);
  EXPECT_EQ(in_unit.at("transformer.ln_f.bias"), Gpt2HeadOffsets(config).ln_f_bias);
}

TEST(Gpt2Spec, TheTwoProjectionsIntoTheResidualStartSmaller) {
  ModelSpec spec = *ModelSpec::Create(TestModelConfig(2, 12, 3, 7, 31));
  for (const TensorSpec& tensor : spec.tensors()) {
    EXPECT_EQ(tensor.init == Init::kResidualProjection, tensor.name.ends_with("c_proj.weight")) << tensor.name;
  }
}

}  // namespace
}  // namespace zerofleet::model
