// Places of declared rows: none overlaps another that is in use with it.
#include "worker/model/activations.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/dry/dry_device.h"
#include "worker/model/declared_units.h"
#include "worker/model/families/gpt2.h"
#include "worker/model/model_testing.h"

namespace zerofleet::model {
namespace {

constexpr int64_t kTokens = 16;

class ActivationsTest : public testing::Test {
 protected:
  Activations Make(const Checkpointing& checkpointing) {
    segments_ = std::make_unique<Segments>(checkpointing, 6);
    kept_ =
        std::make_unique<KeptInputs>(checkpointing, segments_->count(), kTokens * 24, device::DType::kF32, 1, device_);
    return Activations(block_, *segments_, *kept_, checkpointing.selective, kTokens, kTokens, device::DType::kF32);
  }

  device::DryDevice device_;
  // The MLP is as wide as the stream, so that more rows have the same size.
  static Sizes NarrowSizes() {
    Sizes sizes(TestModelConfig(6, 24, 4, 8, 31));
    sizes.intermediate = sizes.hidden;
    return sizes;
  }
  const Declaration block_ = DeclareUnits(kGpt2Family.rows, NarrowSizes()).block;
  std::unique_ptr<Segments> segments_;
  std::unique_ptr<KeptInputs> kept_;
};

struct Range {
  int64_t begin, end;
  bool Overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

TEST_F(ActivationsTest, RowsOfOneBranchNeverOverlap) {
  for (const Checkpointing& checkpointing :
       {Checkpointing{}, Checkpointing{.segment = 2}, Checkpointing{.selective = true}}) {
    const Activations places = Make(checkpointing);
    const std::vector<ActivationRow>& rows = block_.activations();
    for (int64_t layer = 0; layer < 2; ++layer) {
      std::vector<std::pair<Range, int>> seen;  // a place and its branch
      for (size_t row = 0; row < rows.size(); ++row) {
        const int64_t at = places.RowAt(layer, static_cast<int>(row));
        const Range range{at, at + kTokens * rows[row].columns * 4};
        EXPECT_LE(range.end, places.Bytes());
        for (const auto& [other, branch] : seen) {
          const bool may_share = checkpointing.selective && rows[row].cheap && branch != rows[row].branch;
          EXPECT_TRUE(may_share || !range.Overlaps(other)) << row;
        }
        seen.push_back({range, rows[row].branch});
      }
    }
  }
}

TEST_F(ActivationsTest, WhatSelectiveMakesAgainHasOnePlaceForAllBlocksAndBranches) {
  const Activations places = Make({.selective = true});
  std::vector<int> outputs;  // the outputs of the two norms, then GELU's
  for (size_t row = 0; row < block_.activations().size(); ++row) {
    const ActivationRow& one = block_.activations()[row];
    EXPECT_EQ(places.RowAt(0, static_cast<int>(row)) == places.RowAt(5, static_cast<int>(row)), one.cheap) << row;
    if (one.cheap && one.columns == 24) outputs.push_back(static_cast<int>(row));
  }
  ASSERT_EQ(outputs.size(), 3);
  EXPECT_EQ(places.RowAt(0, outputs[0]), places.RowAt(0, outputs[1]));
  EXPECT_NE(places.RowAt(0, outputs[0]), places.RowAt(0, outputs[2]));
}

TEST_F(ActivationsTest, PiecesAddUpToAllBytes) {
  for (const Checkpointing& checkpointing :
       {Checkpointing{}, Checkpointing{.segment = 2}, Checkpointing{.selective = true}}) {
    const Activations places = Make(checkpointing);
    EXPECT_EQ(memory::PieceBytes(places.Pieces(8)), places.Bytes());
  }
}

}  // namespace
}  // namespace zerofleet::model
