// Parts of tensors: every element of the whole is in one part, or in all; padding is in none.
#include "worker/model/part.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/model/spec.h"

namespace zerofleet::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Cut kRowCut = {Cut::Along::kRows}, kSectionCut = {Cut::Along::kRows, 3}, kColumnCut = {Cut::Along::kColumns};

// The whole tensor's elements that a part has, in the part's order; -1 is padding.
std::vector<int64_t> Held(const std::vector<int64_t>& whole, const Cut& cut, const ModelPart& part) {
  const int64_t elements = ElementsOf(ShapeOfPart(whole, cut, part));
  std::vector<int64_t> held(elements, -1);
  for (const WholeRun& run : RunsOfPart(whole, cut, part, 0, elements)) {
    for (int64_t i = 0; i < run.elements; ++i) held[run.begin + i] = run.whole_begin + i;
  }
  return held;
}

TEST(ModelPart, RowsColumnsAndSections) {
  EXPECT_THAT(Held({4, 2}, kRowCut, {1, 2}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(Held({2, 4}, kColumnCut, {1, 2}), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(Held({6}, kSectionCut, {0, 2}), ElementsAre(0, 2, 4));
  EXPECT_THAT(Held({6}, kSectionCut, {1, 2}), ElementsAre(1, 3, 5));
  EXPECT_THAT(Held({3}, {}, {1, 2}), ElementsAre(0, 1, 2));
}

TEST(ModelPart, RowsThatDoNotDivideArePadded) {
  EXPECT_THAT(Held({3, 2}, kRowCut, {0, 2}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Held({3, 2}, kRowCut, {1, 2}), ElementsAre(4, 5, -1, -1));
  const SectionRows last = RowsOfPart(53, {3, 4});
  EXPECT_EQ(last.all, 14);
  EXPECT_EQ(last.real, 11);
  EXPECT_EQ(last.first, 42);
}

TEST(ModelPart, APieceOfAPartIsThatPieceOfItsRuns) {
  for (const Cut& cut : {Cut{}, kRowCut, kSectionCut, kColumnCut}) {
    const ModelPart part = {1, 2};
    const std::vector<int64_t> whole = {6, 4}, held = Held(whole, cut, part);
    const int64_t elements = static_cast<int64_t>(held.size());
    for (int64_t begin = 0; begin < elements; ++begin) {
      for (int64_t end = begin + 1; end <= elements; ++end) {
        int64_t seen = begin;
        for (const WholeRun& run : RunsOfPart(whole, cut, part, begin, end)) {
          EXPECT_EQ(run.begin, seen);
          EXPECT_EQ(run.whole_begin, held[run.begin]);
          seen += run.elements;
        }
        EXPECT_EQ(seen, end);
      }
    }
  }
}

TEST(ModelSpec, AnElementOfTheWholeIsInOnePartOrInAll) {
  const v1::ModelConfig config = TestModelConfig(2, 24, 4, 9, 53);
  const ModelSpec whole = *ModelSpec::Create(config);
  for (int count : {1, 2, 4}) {
    std::map<int64_t, int> times;
    for (int index = 0; index < count; ++index) {
      const ModelSpec part = *ModelSpec::Create(config, {index, count});
      EXPECT_EQ(part.whole_parameters(), whole.parameters());
      EXPECT_EQ(part.FlopsPerToken(), whole.FlopsPerToken());
      EXPECT_EQ(part.units().size(), whole.units().size());
      EXPECT_EQ(part.parameters(), ModelSpec::Create(config, {0, count})->parameters());
      for (const coordinator::PlacedRange& range : part.ToWhole({{0, part.parameters(), 0}})) {
        for (int64_t at = range.flat_begin; at < range.flat_end; ++at) ++times[at];
      }
    }
    ASSERT_EQ(static_cast<int64_t>(times.size()), whole.parameters());
    for (const TensorSpec& tensor : whole.tensors()) {
      const int expected = tensor.cut.along == Cut::Along::kNothing ? count : 1;
      EXPECT_EQ(times.at(tensor.flat_begin), expected) << tensor.name;
      EXPECT_EQ(times.at(tensor.flat_end - 1), expected) << tensor.name;
    }
  }
}

TEST(ModelSpec, RangesGoToTheWholeWithTheirOffsets) {
  const v1::ModelConfig config = TestModelConfig(1, 8, 2, 4, 10);
  const ModelSpec whole = *ModelSpec::Create(config), part = *ModelSpec::Create(config, {1, 2});
  EXPECT_THAT(whole.ToWhole({{3, 20, 7}, {20, 90, 24}}), ElementsAre(coordinator::PlacedRange{3, 90, 7}));
  // The embedding's rows 5 to 9 (40 elements), then the position table, which is in both parts.
  EXPECT_THAT(part.ToWhole({{38, 44, 100}}), ElementsAre(coordinator::PlacedRange{78, 84, 100}));
}

TEST(ModelSpec, APartHasItsShareOfEveryShape) {
  const ModelSpec part = *ModelSpec::Create(TestModelConfig(1, 24, 4, 9, 53), {3, 4});
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const TensorSpec& tensor : part.tensors()) shapes[tensor.name] = tensor.shape;
  EXPECT_THAT(shapes.at("transformer.wte.weight"), ElementsAre(14, 24));
  EXPECT_THAT(shapes.at("transformer.wpe.weight"), ElementsAre(9, 24));
  EXPECT_THAT(shapes.at("transformer.h.0.attn.c_attn.weight"), ElementsAre(18, 24));
  EXPECT_THAT(shapes.at("transformer.h.0.attn.c_attn.bias"), ElementsAre(18));
  EXPECT_THAT(shapes.at("transformer.h.0.attn.c_proj.weight"), ElementsAre(24, 6));
  EXPECT_THAT(shapes.at("transformer.h.0.attn.c_proj.bias"), ElementsAre(24));
  EXPECT_THAT(shapes.at("transformer.h.0.mlp.c_fc.weight"), ElementsAre(24, 24));
  EXPECT_THAT(shapes.at("transformer.h.0.mlp.c_proj.weight"), ElementsAre(24, 24));
}

TEST(ModelSpec, RefusesPartsThatDoNotDivideAndSaysWhatFits) {
  const absl::Status status = ModelSpec::Create(TestModelConfig(2, 24, 6, 9, 53), {0, 4}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("parallel.tensor: cannot be 4 with model.heads 6"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1, 2, 3, 6 fit"));
  // Four parts of a vocabulary of 6 have 2 rows each: the fourth would have padding alone.
  EXPECT_FALSE(ModelSpec::Create(TestModelConfig(2, 24, 4, 9, 6), {0, 4}).ok());
}

}  // namespace
}  // namespace zerofleet::model
