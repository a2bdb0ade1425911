// Offsets: every stage holds what its row says, and owners never depend on the stage.
#include "worker/zero/layout.h"

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet::zero {
namespace {

model::ModelSpec Spec() { return *model::ModelSpec::Create(model::TestModelConfig(2, 12, 3, 7, 31)); }

TEST(ZeroLayout, OwnersDoNotDependOnTheStage) {
  model::ModelSpec spec = Spec();
  for (int rank = 0; rank < 3; ++rank) {
    ZeroLayout plain(spec, {.stage = 0, .rank = rank, .world_size = 3});
    ZeroLayout split(spec, {.stage = 3, .rank = rank, .world_size = 3});
    for (int u = 0; u < plain.units(); ++u) EXPECT_EQ(plain.Owned(u), split.Owned(u));
  }
}

TEST(ZeroLayout, VectorsAreWholeOrSplit) {
  model::ModelSpec spec = Spec();
  for (int stage = 0; stage <= 3; ++stage) {
    ZeroLayout layout(spec, {.stage = stage, .rank = 1, .world_size = 4});
    int64_t whole = layout.partition().TotalPaddedElements();
    EXPECT_EQ(layout.optimizer_elements(), stage >= 1 ? whole / 4 : whole);
    EXPECT_EQ(layout.gradient_elements(), stage >= 2 ? whole / 4 : whole);
    EXPECT_EQ(layout.parameter_elements(), stage >= 3 ? whole / 4 : whole);
    for (int u = 0; u < layout.units(); ++u) {
      coordinator::PlacedRange rest = layout.RestingParameters(u);
      EXPECT_EQ(rest.elements(), stage == 3 ? layout.Owned(u).elements() : layout.partition().unit(u).elements());
      EXPECT_LE(rest.offset + rest.elements(), layout.parameter_elements());
      ZeroLayout::UpdatedRange piece = layout.Updated(u);
      if (piece.elements() == 0) continue;
      EXPECT_EQ(piece.parameter_offset, rest.offset + piece.flat_begin - rest.flat_begin);
      EXPECT_LE(piece.state_offset + piece.elements(), layout.optimizer_elements());
      EXPECT_LE(piece.parameter_offset + piece.elements(), layout.parameter_elements());
      EXPECT_LE(piece.gradient_offset + piece.elements(), layout.gradient_elements());
    }
  }
}

TEST(ZeroLayout, SeveralMicroBatchesRestInFp32) {
  model::ModelSpec spec = Spec();
  EXPECT_EQ(ZeroLayout(spec, {.dtype = device::DType::kBF16, .micro_batches = 1}).gradient_dtype(),
            device::DType::kBF16);
  EXPECT_EQ(ZeroLayout(spec, {.dtype = device::DType::kBF16, .micro_batches = 2}).gradient_dtype(),
            device::DType::kF32);
}

TEST(ZeroLayout, DescriptionsTellLayoutsApartButNotRanks) {
  model::ModelSpec spec = Spec();
  auto describe = [&](ZeroOptions options) { return ZeroLayout(spec, options).Describe(spec); };
  std::string base = describe({.stage = 1, .rank = 0, .world_size = 2});
  EXPECT_EQ(base, describe({.stage = 1, .rank = 1, .world_size = 2}));
  EXPECT_NE(base, describe({.stage = 2, .rank = 0, .world_size = 2}));
  EXPECT_NE(base, describe({.stage = 1, .rank = 0, .world_size = 3}));
  EXPECT_NE(base, describe({.stage = 1, .dtype = device::DType::kF32, .rank = 0, .world_size = 2}));
}

}  // namespace
}  // namespace zerofleet::zero
