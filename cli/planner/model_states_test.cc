// Table 1 of the ZeRO paper, every cell, and its §7 traffic.
#include "cli/planner/model_states.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

struct Table1Row {
  int64_t workers;
  double gigabytes[3][3];   // as printed, indexed by model (7.5B, 128B, 1T) and stage (1, 2, 3)
  double last_digit[3][3];  // the unit of the last printed digit; the paper rounds some cells and truncates others
};

constexpr Table1Row kTable1[] = {
    {1, {{120, 120, 120}, {2048, 2048, 2048}, {16000, 16000, 16000}}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}},
    {4, {{52.5, 41.3, 30}, {896, 704, 512}, {7000, 5500, 4000}}, {{.1, .1, 1}, {1, 1, 1}, {1, 1, 1}}},
    {16, {{35.6, 21.6, 7.5}, {608, 368, 128}, {4750, 2875, 1000}}, {{.1, .1, .1}, {1, 1, 1}, {1, 1, 1}}},
    {64, {{31.4, 16.6, 1.88}, {536, 284, 32}, {4187, 2218, 250}}, {{.1, .1, .01}, {1, 1, 1}, {1, 1, 1}}},
    {256, {{30.4, 15.4, 0.47}, {518, 263, 8}, {4046, 2054, 62.5}}, {{.1, .1, .01}, {1, 1, 1}, {1, 1, .1}}},
    {1024, {{30.1, 15.1, 0.12}, {513, 257, 2}, {4011, 2013, 15.6}}, {{.1, .1, .01}, {1, 1, 1}, {1, 1, .1}}},
};
constexpr double kModels[] = {7.5e9, 128e9, 1e12};

TEST(ModelStates, AreTable1OfThePaper) {
  for (const Table1Row& row : kTable1) {
    for (int model = 0; model < 3; ++model) {
      for (int stage = 1; stage <= 3; ++stage) {
        const double ours = PaperModelStates(stage, kModels[model], row.workers).total() / 1e9;
        EXPECT_LT(std::abs(ours - row.gigabytes[model][stage - 1]), row.last_digit[model][stage - 1])
            << "workers " << row.workers << ", model " << kModels[model] << ", stage " << stage;
      }
      EXPECT_EQ(PaperModelStates(0, kModels[model], row.workers).total(), 16 * kModels[model]);
    }
  }
}

TEST(ModelStates, ItemsAreTheFormulasTerms) {
  const ModelStates states = PaperModelStates(2, 1000, 4);
  EXPECT_EQ(states.parameters, 2000);
  EXPECT_EQ(states.gradients, 500);
  EXPECT_EQ(states.optimizer, 3000);
}

TEST(ModelStates, PrecisionDecidesWhatParametersAndGradientsTake) {
  // 1000 parameters on 4 workers, by hand: stage 0 keeps 1000 x (2 + 2 + 12) or (4 + 4 + 12), stage 1 a quarter of
  // the 12000, stage 2 of the gradients too, stage 3 of everything.
  const double two_bytes[] = {16000, 7000, 5500, 4000}, four_bytes[] = {20000, 11000, 8000, 5000};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(PaperModelStates(stage, 1000, 4, "bf16").total(), two_bytes[stage]) << stage;
    EXPECT_EQ(PaperModelStates(stage, 1000, 4, "fp16").total(), two_bytes[stage]) << stage;
    EXPECT_EQ(PaperModelStates(stage, 1000, 4, "fp32").total(), four_bytes[stage]) << stage;
  }
  EXPECT_EQ(UnsplitBytesPerParameter("bf16", optim::Optimizers().front()), 16);
  EXPECT_EQ(UnsplitBytesPerParameter("fp32", optim::Optimizers().front()), 20);
}

TEST(ModelStates, TheOptimizerDecidesK) {
  const optim::OptimizerRow& sgd = *optim::FindOptimizer("sgd").value();
  EXPECT_EQ(PaperModelStates(0, 1000, 4, "bf16", sgd).total(), 12000);
  EXPECT_EQ(PaperModelStates(1, 1000, 4, "bf16", sgd).optimizer, 2000);
  EXPECT_EQ(UnsplitBytesPerParameter("bf16", sgd), 12);
}

TEST(ModelStates, TrafficIsTwoOrThreeTimesTheModel) {
  for (int stage = 0; stage <= 2; ++stage) EXPECT_EQ(PaperTrafficElements(stage, 1000, 4), 1500);
  EXPECT_EQ(PaperTrafficElements(3, 1000, 4), 2250);
  EXPECT_EQ(PaperTrafficElements(3, 1000, 1), 0);
  for (int stage = 0; stage <= 3; ++stage) {
    EXPECT_DOUBLE_EQ(SentBytes(stage, 1000, 4, "bf16", 4), 2 * PaperTrafficElements(stage, 1000, 4));
  }
}

TEST(ModelStates, SumsBetweenTeamsTravelInFp32) {
  // 800 elements on 8 ranks in 2 teams of 4: a rank sends 3/4 of them within its team, the sums of one shard of 100 to
  // the other team, and its updated shard to 7 ranks.
  EXPECT_DOUBLE_EQ(SentBytes(2, 800, 8, "bf16", 4), 600 * 2 + 100 * 4 + 700 * 2);
  EXPECT_DOUBLE_EQ(SentBytes(3, 800, 8, "bf16", 4), 600 * 2 + 100 * 4 + 2 * 700 * 2);
  EXPECT_DOUBLE_EQ(SentBytes(2, 800, 8, "fp32", 4), 600 * 4 + 100 * 4 + 700 * 4);
}

}  // namespace
}  // namespace zerofleet::cli
