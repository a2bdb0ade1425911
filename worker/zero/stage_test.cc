// The rows say what the paper says: each stage splits what the one before splits, and one thing more.
#include "worker/zero/stage.h"

#include "gtest/gtest.h"

namespace zerofleet::zero {
namespace {

TEST(Stage, EachSplitsOneThingMore) {
  for (int stage = 0; stage <= 3; ++stage) {
    const StageRow& row = Stage(stage);
    EXPECT_EQ(row.stage, stage);
    EXPECT_EQ(row.split_optimizer + row.split_gradients + row.split_parameters, stage);
  }
  EXPECT_TRUE(Stage(1).split_optimizer);
  EXPECT_TRUE(Stage(2).split_gradients);
  EXPECT_TRUE(Stage(3).split_parameters);
}

TEST(Stage, ThereIsNoOther) {
  EXPECT_DEATH(Stage(4), "check failed");
  EXPECT_DEATH(Stage(-1), "check failed");
}

}  // namespace
}  // namespace zerofleet::zero
