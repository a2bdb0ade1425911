// Warm-up, the three decays, and both ends.
#include "worker/optim/schedule.h"

#include "gtest/gtest.h"

namespace zerofleet::optim {
namespace {

double Rate(const char* decay, int64_t step) {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(1.0);
  v1::ScheduleConfig schedule;
  schedule.set_warmup_steps(10);
  schedule.set_decay(decay);
  schedule.set_min_learning_rate(0.1);
  return LearningRate(optimizer, schedule, 110, step);
}

TEST(LearningRate, WarmsUpLinearly) {
  EXPECT_DOUBLE_EQ(Rate("cosine", 1), 0.1);
  EXPECT_DOUBLE_EQ(Rate("linear", 5), 0.5);
  EXPECT_DOUBLE_EQ(Rate("constant", 10), 1.0);
}

TEST(LearningRate, DecaysToTheMinimumAtTheLastStep) {
  EXPECT_DOUBLE_EQ(Rate("cosine", 110), 0.1);
  EXPECT_DOUBLE_EQ(Rate("linear", 110), 0.1);
  EXPECT_DOUBLE_EQ(Rate("constant", 110), 1.0);
  EXPECT_DOUBLE_EQ(Rate("cosine", 60), 0.55);
  EXPECT_DOUBLE_EQ(Rate("linear", 35), 0.775);
}

TEST(LearningRate, NeedsNoWarmup) {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(2.0);
  v1::ScheduleConfig schedule;
  schedule.set_decay("constant");
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, schedule, 5, 1), 2.0);
}

}  // namespace
}  // namespace zerofleet::optim
