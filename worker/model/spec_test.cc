// The tensor table: sizes of the published models, a flat space without gaps, refusals.
#include "worker/model/spec.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/model/presets.h"

namespace zerofleet::model {
namespace {

using ::testing::HasSubstr;

v1::ModelConfig FromPreset(const ModelPreset& preset) {
  return TestModelConfig(preset.layers, preset.hidden, preset.heads, preset.context, preset.vocab ? preset.vocab : 256);
}

TEST(ModelSpec, CountsThePublishedParameters) {
  EXPECT_EQ(ModelSpec::Create(FromPreset(*FindPreset("gpt2-124m")))->parameters(), 124439808);
  EXPECT_EQ(ModelSpec::Create(FromPreset(*FindPreset("gpt2-355m")))->parameters(), 354823168);
  EXPECT_EQ(ModelSpec::Create(FromPreset(*FindPreset("gpt2-774m")))->parameters(), 774030080);
  EXPECT_EQ(ModelSpec::Create(FromPreset(*FindPreset("gpt2-1558m")))->parameters(), 1557611200);
}

TEST(ModelSpec, ThePapersModelsHaveTheirSizes) {
  const std::pair<const char*, double> sizes[] = {
      {"zero-8b", 8e9},    {"zero-13b", 13e9},       {"zero-40b", 40e9},
      {"zero-60b", 60e9},  {"zero-100b", 100e9},     {"zero-170b", 170e9},
      {"zero-1t", 1000e9}, {"turing-nlg-17b", 17e9}, {"zero-offload-1b", 1.1e9}};
  for (const auto& [name, parameters] : sizes) {
    const auto counted = static_cast<double>(ModelSpec::Create(FromPreset(*FindPreset(name)))->parameters());
    EXPECT_NEAR(counted / parameters, 1, 0.04) << name;
  }
}

TEST(ModelSpec, FlatSpaceHasNoGaps) {
  ModelSpec spec = *ModelSpec::Create(TestModelConfig(3, 20, 5, 9, 61));
  int64_t next = 0;
  for (const TensorSpec& tensor : spec.tensors()) {
    EXPECT_EQ(tensor.flat_begin, next) << tensor.name;
    EXPECT_LE(spec.units()[tensor.unit].flat_begin, tensor.flat_begin);
    EXPECT_GE(spec.units()[tensor.unit].flat_end, tensor.flat_end);
    next = tensor.flat_end;
  }
  EXPECT_EQ(next, spec.parameters());
  EXPECT_EQ(spec.units().back().flat_end, next);
}

TEST(ModelSpec, OnlyMatricesAndTheTokenEmbeddingDecay) {
  ModelSpec spec = *ModelSpec::Create(TestModelConfig(1, 20, 5, 9, 61));
  for (const TensorSpec& tensor : spec.tensors()) {
    bool matrix = tensor.shape.size() == 2 && tensor.name != "transformer.wpe.weight";
    EXPECT_EQ(tensor.decay, matrix) << tensor.name;
  }
}

TEST(ModelSpec, ResidualProjectionsStartSmaller) {
  ModelSpec spec = *ModelSpec::Create(TestModelConfig(8, 20, 5, 9, 61));
  EXPECT_DOUBLE_EQ(spec.Deviation(Init::kNormal), 0.02);
  EXPECT_DOUBLE_EQ(spec.Deviation(Init::kResidualProjection), 0.005);
}

TEST(ModelSpec, FlopsPerTokenLeaveOutThePositionTable) {
  v1::ModelConfig config = TestModelConfig(2, 8, 2, 16, 32);
  ModelSpec spec = *ModelSpec::Create(config);
  EXPECT_DOUBLE_EQ(spec.FlopsPerToken(), 6.0 * static_cast<double>(spec.parameters() - 16 * 8) + 12.0 * 2 * 8 * 16);
}

// Per forward: norms 2 times the width, sums into the stream 3 times, GELU 2 times the intermediate width; and twice
// that per backward.
TEST(ModelSpec, ElementWiseTrafficIsThatOfAllBlocks) {
  const ModelSpec spec = *ModelSpec::Create(TestModelConfig(3, 8, 2, 16, 32));
  EXPECT_EQ(spec.PointwiseElementsPerToken(), 3 * 3 * (2 * 2 * 8 + 2 * 3 * 8 + 2 * 32));
}

TEST(ModelSpec, KnowsKindsOfUnitsAndWhereTheirGradientsBegin) {
  using enum UnitKind;
  const ModelSpec spec = *ModelSpec::Create(TestModelConfig(2, 8, 2, 8, 16));
  EXPECT_THAT(spec.unit_kinds(), testing::ElementsAre(kEmbedding, kBlock, kBlock, kHead));
  EXPECT_EQ(spec.FirstGradientOf(0), 3);  // the tied head's unit
  for (int unit = 1; unit < 4; ++unit) EXPECT_EQ(spec.FirstGradientOf(unit), unit);
}

TEST(ModelSpec, RefusesWhatCannotBe) {
  EXPECT_THAT(std::string(ModelSpec::Create(TestModelConfig(2, 10, 3, 8, 16)).status().message()),
              HasSubstr("does not divide"));
  EXPECT_THAT(std::string(ModelSpec::Create(TestModelConfig(0, 8, 2, 8, 16)).status().message()),
              HasSubstr("model.layers"));
  v1::ModelConfig other = TestModelConfig(2, 8, 2, 8, 16);
  other.set_family("mamba");
  EXPECT_THAT(std::string(ModelSpec::Create(other).status().message()), HasSubstr("mamba"));
}

}  // namespace
}  // namespace zerofleet::model
