// Medians, windows, and losses from the coordinator.
#include "worker/trainer/spike_rule.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::trainer {
namespace {

v1::DivergenceConfig RuleConfig(double factor, int64_t window) {
  v1::DivergenceConfig config;
  config.set_spike_factor(factor);
  config.set_window_steps(window);
  return config;
}

TEST(SpikeRule, ALossAboveTheFactorTimesTheMedianIsASpike) {
  SpikeRule rule(RuleConfig(2, 4), {});
  for (const double loss : {9.0, 1.0, 3.0}) EXPECT_EQ(rule.Judge(loss), "");
  EXPECT_EQ(rule.Judge(100), "");  // the window is not full yet
  EXPECT_EQ(rule.Judge(12), "");   // the median of 9, 1, 3, 100 is 6
  EXPECT_EQ(rule.Judge(15.1),
            "loss 15.1, more than 2 times the median of the last 4 steps, 7.5 (divergence.spike_factor)");
  EXPECT_EQ(rule.Judge(0), "");     // no token of that step counts, so it is not added
  EXPECT_NE(rule.Judge(15.1), "");  // the first was not added to 1, 3, 100, 12
  EXPECT_EQ(rule.Judge(15), "");
}

TEST(SpikeRule, IsTheSameFromLossesThatWereTold) {
  SpikeRule whole(RuleConfig(1.5, 3), {}), told(RuleConfig(1.5, 3), {4, 1, 2, 3});
  for (const double loss : {4.0, 1.0, 2.0, 3.0}) whole.Judge(loss);
  for (const double loss : {2.9, 3.1, 9.0, 4.6, 4.4}) EXPECT_EQ(whole.Judge(loss), told.Judge(loss)) << loss;
  EXPECT_NE(told.Judge(9), "");
}

TEST(SpikeRule, WithoutAFactorNothingIs) {
  SpikeRule rule(RuleConfig(0, 1), {1});
  EXPECT_EQ(rule.Judge(1e30), "");
}

}  // namespace
}  // namespace zerofleet::trainer
