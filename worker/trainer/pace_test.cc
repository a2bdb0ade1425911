// The median of the newest steps, of the phases that are a rank's own work.
#include "worker/trainer/pace.h"

#include "gtest/gtest.h"

namespace zerofleet::trainer {
namespace {

zero::PhaseSeconds Step(double forward) {
  zero::PhaseSeconds step;
  step[zero::StepPhase::kForward] = forward;
  step[zero::StepPhase::kBackward] = 2 * forward;
  step[zero::StepPhase::kReduce] = 100;
  return step;
}

TEST(Pace, IsTheMedianOfTheNewestSteps) {
  Pace pace;
  EXPECT_EQ(pace.Median().steps(), 0);
  for (const double forward : {1.0, 9.0, 2.0}) pace.Add(Step(forward));
  EXPECT_EQ(pace.Median().steps(), 3);
  EXPECT_EQ(pace.Median().forward(), 2);
  EXPECT_EQ(pace.Median().backward(), 4);
  EXPECT_EQ(pace.Median().optimizer(), 0);
  for (int step = 0; step < 40; ++step) pace.Add(Step(5));
  EXPECT_EQ(pace.Median().steps(), 32);
  EXPECT_EQ(pace.Median().forward(), 5);
  for (int step = 0; step < 17; ++step) pace.Add(Step(7));
  EXPECT_EQ(pace.Median().forward(), 7);
}

}  // namespace
}  // namespace zerofleet::trainer
