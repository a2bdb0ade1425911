// The key's words, and the memory and FLOPs that each of them promises.
#include "worker/model/checkpointing.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/model.h"
#include "worker/model/model_testing.h"

namespace zerofleet::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Checkpointing, IsParsedFromTheKey) {
  EXPECT_EQ(*ParseCheckpointing("none"), Checkpointing{});
  EXPECT_EQ(*ParseCheckpointing("block"), Checkpointing{.segment = 1});
  EXPECT_EQ(*ParseCheckpointing("selective"), Checkpointing{.selective = true});
  EXPECT_EQ(*ParseCheckpointing(EveryText(12)), Checkpointing{.segment = 12});
  for (const char* wrong : {"", "full", "{every: 0}", "{every: -1}", "{every: 10001}", "{every: 2", "{every: 2.5}"}) {
    EXPECT_THAT(std::string(ParseCheckpointing(wrong).status().message()), HasSubstr("none, block, selective"))
        << wrong;
  }
}

class PlannedModel {
 public:
  PlannedModel(int64_t layers, const Checkpointing& checkpointing)
      : model_(*Model::Create(TestModelConfig(layers, 64, 2, 32, 64), {device::DType::kBF16, 2, 32, checkpointing},
                              *device_)) {}
  // In bf16 elements per token, as multiples of the hidden size; fp32 statistics count too.
  double ElementsPerToken() const { return static_cast<double>(model_->ActivationBytes()) / (2.0 * 64 * 2 * 32); }
  const Model& model() const { return *model_; }

 private:
  std::unique_ptr<device::Device> device_ = *device::CreateDevice({.kind = "cpu", .threads = 1});
  std::unique_ptr<Model> model_;
};

// The 4 fp32 statistics of norms and 2 of attention per block are worth 12 bf16 elements, or 0.1875 of 64.
TEST(Checkpointing, KeepsWhatItSays) {
  constexpr double kStatistics = 12.0 / 64, kAttention = 4.0 / 64, kNorm = 4.0 / 64;
  EXPECT_DOUBLE_EQ(PlannedModel(6, {}).ElementsPerToken(), 6 * (16 + kStatistics) + 1);
  EXPECT_DOUBLE_EQ(PlannedModel(6, {.selective = true}).ElementsPerToken(), 6 * (10 + kAttention) + 5 + kNorm + 1);
  EXPECT_DOUBLE_EQ(PlannedModel(6, {.segment = 1}).ElementsPerToken(), 6 + 15 + kStatistics + 1);
  EXPECT_DOUBLE_EQ(PlannedModel(6, {.segment = 2}).ElementsPerToken(), 3 + 1 + 2 * (15 + kStatistics) + 1);
  EXPECT_DOUBLE_EQ(PlannedModel(6, {.segment = 4}).ElementsPerToken(), 2 + 3 + 4 * (15 + kStatistics) + 1);
  EXPECT_DOUBLE_EQ(PlannedModel(6, {.segment = 60}).ElementsPerToken(), PlannedModel(6, {}).ElementsPerToken());
}

// A block's products take 24 C^2 + 4 T C FLOPs per token in the forward; its last product takes 8 C^2.
TEST(Checkpointing, CountsWhatItComputesAgain) {
  constexpr double kSquare = 64.0 * 64, kAttention = 4.0 * 32 * 64, kBlock = 24 * kSquare + kAttention;
  const auto flops = [](const Checkpointing& checkpointing) {
    return PlannedModel(6, checkpointing).model().RecomputedFlopsPerToken();
  };
  EXPECT_EQ(flops({}), 0);
  EXPECT_EQ(flops({.selective = true}), 0);
  EXPECT_EQ(flops({.segment = 1}), 5 * (kBlock - 8 * kSquare));
  EXPECT_EQ(flops({.segment = 2}), 2 * (2 * kBlock - 8 * kSquare));
  EXPECT_EQ(flops({.segment = 4}), 4 * kBlock - 8 * kSquare);
}

// Unit 0 is the embedding, 1 to 5 are the blocks, 6 the head. A segment's last block is recomputed within the use of
// its backward; the last segment is not recomputed.
TEST(Checkpointing, AsksForUnitsAgainOnlyWithinSegments) {
  const auto uses = [](const Checkpointing& checkpointing) {
    return PlannedModel(5, checkpointing).model().uses().training;
  };
  EXPECT_THAT(uses({}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 0, 5, 4, 3, 2, 1));
  EXPECT_EQ(uses({.segment = 1}), uses({}));
  EXPECT_EQ(uses({.selective = true}), uses({}));
  EXPECT_THAT(uses({.segment = 2}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 0, 5, 3, 4, 3, 1, 2, 1));
  EXPECT_THAT(uses({.segment = 3}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 0, 5, 4, 1, 2, 3, 2, 1));
}

}  // namespace
}  // namespace zerofleet::model
