// What rows that differ from GPT-2's declare: products side by side, fewer heads of keys and values, no biases.
#include "worker/model/declaration.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/declared_units.h"
#include "worker/model/model_testing.h"

namespace zerofleet::model {
namespace {

using ::testing::ElementsAre;

constexpr BlockRow kDeclaredBlock[] = {
    Norm{NormKind::kLayer, "a"},
    Spread{{{"q", Width::kQueries}, {"k", Width::kKeysValues}, {"v", Width::kKeysValues}}, Bias::kBias},
    Attend{},
    Project{"o", Width::kQueries, Bias::kNone},
    Norm{NormKind::kLayer, "b"},
    Spread{{{"up", Width::kIntermediate}}, Bias::kNone},
    Activate{ActivationKind::kGelu},
    Project{"down", Width::kIntermediate, Bias::kNone},
};
constexpr FamilyRows kDeclaredRows = {
    {"tokens", "positions"}, kDeclaredBlock, {{NormKind::kLayer, "c"}, nullptr}, 1e-6f};

// Hidden size 24, 4 heads of 6, 2 heads of keys and values, intermediate size 96.
Declaration BlockOf(const Sharing& sharing = {}) {
  v1::ModelConfig config = TestModelConfig(3, 24, 4, 10, 50);
  config.set_kv_heads(2);
  return DeclareUnits(kDeclaredRows, Sizes(config), sharing).block;
}

TEST(Declaration, ProductsOverOneInputAreNeighboursInTheTable) {
  const Declaration block = BlockOf();
  std::vector<std::string> names;
  for (const DeclaredTensor& tensor : block.tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("a.weight", "a.bias", "q.weight", "k.weight", "v.weight", "q.bias", "k.bias", "v.bias",
                                 "o.weight", "b.weight", "b.bias", "up.weight", "down.weight"));
  ASSERT_EQ(block.products().size(), 4);
  EXPECT_EQ(block.products()[0].n, 24 + 12 + 12);
  EXPECT_TRUE(block.products()[0].bias);
  EXPECT_FALSE(block.products()[1].bias);
}

TEST(Declaration, APartHasItsShareOfEachProductOnItsOwn) {
  const Declaration part = BlockOf({.parts = 2});
  EXPECT_EQ(part.products()[0].n, 12 + 6 + 6);
  EXPECT_EQ(part.products()[1].k, 12);
  for (const DeclaredTensor& tensor : part.tensors()) EXPECT_EQ(tensor.cut.sections, 1) << tensor.name;
  EXPECT_EQ(part.ForwardFlops(), BlockOf().ForwardFlops());
  std::vector<std::pair<std::string, int64_t>> shared;
  for (const SharedSize& one : part.shared()) shared.emplace_back(one.key, one.size);
  EXPECT_THAT(shared, ElementsAre(std::pair("model.heads", 4), std::pair("model.kv_heads", 2),
                                  std::pair("model.intermediate", 96)));
}

TEST(Declaration, CountsProductsAndAttention) {
  const double products = 2 * (24 * 48 + 24 * 24 + 2 * 24 * 96), attention = 4 * 10 * 24;
  EXPECT_EQ(BlockOf().ForwardFlops(), products + attention);
  EXPECT_EQ(BlockOf().LastProductFlops(), 2 * 24 * 96);
  // Two norms and two sums into the stream, and GELU, each in forward and backward.
  EXPECT_EQ(BlockOf().pointwise_elements(), 3 * (2 * 2 * 24 + 2 * 3 * 24 + 2 * 96));
}

TEST(Declaration, OnlyNormsAndActivationsAreCheapToMakeAgain) {
  const Declaration block = BlockOf();
  std::vector<int64_t> kept, cheap;
  for (const ActivationRow& row : block.activations()) (row.cheap ? cheap : kept).push_back(row.columns);
  EXPECT_THAT(kept, ElementsAre(48, 24, 4, 24, 96));  // qkv, attention and its sums, the stream's middle, up
  EXPECT_THAT(cheap, ElementsAre(24, 1, 1, 24, 1, 1, 96));
}

}  // namespace
}  // namespace zerofleet::model
