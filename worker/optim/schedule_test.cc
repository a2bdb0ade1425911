// Warm-up, every kind of decay, and both ends.
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

double StableRate(const char* shape, int64_t steps, int64_t step) {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(1.0);
  v1::ScheduleConfig schedule;
  schedule.set_warmup_steps(10);
  schedule.set_decay("wsd");
  schedule.set_decay_steps(20);
  schedule.set_decay_shape(shape);
  schedule.set_min_learning_rate(0.1);
  return LearningRate(optimizer, schedule, steps, step);
}

// Up to its decay a run's rate does not depend on where the decay begins.
TEST(LearningRate, DecaysInTheLastSteps) {
  EXPECT_DOUBLE_EQ(StableRate("linear", 110, 5), 0.5);
  for (const int64_t steps : {50, 110}) {
    EXPECT_DOUBLE_EQ(StableRate("linear", steps, steps - 20), 1.0);
    EXPECT_DOUBLE_EQ(StableRate("linear", steps, steps - 10), 0.55);
    EXPECT_DOUBLE_EQ(StableRate("cosine", steps, steps - 10), 0.55);
    EXPECT_DOUBLE_EQ(StableRate("sqrt", steps, steps - 15), 0.1 + 0.9 * 0.5);
    for (const char* shape : {"linear", "cosine", "sqrt"}) EXPECT_DOUBLE_EQ(StableRate(shape, steps, steps), 0.1);
  }
}

TEST(LearningRate, Restarts) {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(1.0);
  v1::ScheduleConfig schedule;
  schedule.set_warmup_steps(10);
  schedule.set_decay("restarts");
  schedule.set_cycle_steps(40);
  schedule.set_min_learning_rate(0.1);
  for (const int64_t cycle : {0, 1, 2}) {
    EXPECT_DOUBLE_EQ(LearningRate(optimizer, schedule, 500, 10 + 40 * cycle), 1.0);
    EXPECT_DOUBLE_EQ(LearningRate(optimizer, schedule, 500, 30 + 40 * cycle), 0.55);
  }
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
