// Peaks measured on a busy machine: series that are disturbed, steps that are faster than any of them.
#include "worker/trainer/peak_meter.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The result when measurements return these values, and how many were needed.
std::pair<double, int> Best(const std::vector<double>& rates) {
  int calls = 0;
  const double best = PeakMeter::BestOfSeries([&] { return rates[std::min<size_t>(calls++, rates.size() - 1)]; });
  return {best, calls};
}

TEST(PeakMeter, SpendsNoSecondsOnRunsOfSeconds) {
  EXPECT_FALSE(PeakMeter::IsWorthCare(0.99e12));
  EXPECT_TRUE(PeakMeter::IsWorthCare(1e12));
}

TEST(PeakMeter, AQuietMachineIsMeasuredTwice) { EXPECT_EQ(Best({100, 101}), std::make_pair(101.0, 2)); }

TEST(PeakMeter, ABusyStartIsMeasuredUntilTheBestIsConfirmed) {
  EXPECT_EQ(Best({40, 60, 100, 55, 99}), std::make_pair(100.0, 5));
  EXPECT_EQ(Best({40, 10, 100, 100.5}), std::make_pair(100.5, 4));
}

TEST(PeakMeter, EndsOnAMachineThatNeverSettles) {
  EXPECT_EQ(Best({10, 20, 30, 40, 50, 60, 70}), std::make_pair(50.0, PeakMeter::kMostSeries));
}

TEST(PeakMeter, EarlyStepsAreFollowedByMeasurementsAndLateOnesAreNot) {
  int measurements = 0;
  for (int64_t step = 1; step <= 100000; ++step) measurements += PeakMeter::MeasuresAfter(step);
  EXPECT_TRUE(PeakMeter::MeasuresAfter(10));
  EXPECT_FALSE(PeakMeter::MeasuresAfter(0));
  EXPECT_EQ(measurements, 4);
}

TEST(PeakMeter, ThePeakOnlyGrows) {
  PeakMeter meter;
  std::string note;
  EXPECT_EQ(meter.Utilization(1, 50, &note), 0);  // no peak is known yet
  meter.Offer(100, false);
  EXPECT_DOUBLE_EQ(meter.Utilization(1, 50, &note), 0.5);
  meter.Offer(200, false);
  meter.Offer(80, false);
  EXPECT_DOUBLE_EQ(meter.Utilization(2, 50, &note), 0.25);
  EXPECT_TRUE(note.empty());
}

TEST(PeakMeter, AFasterStepRaisesThePeakAndSaysSo) {
  PeakMeter meter;
  std::string note;
  meter.Offer(1e12, false);
  EXPECT_EQ(meter.Utilization(7, 2.36e12, &note), 1);
  EXPECT_THAT(note, AllOf(HasSubstr("step 7 ran at 2.36 TFLOP/s"), HasSubstr("measured GEMM peak of 1 TFLOP/s"),
                          HasSubstr("the step's rate is the peak")));
  EXPECT_DOUBLE_EQ(meter.flops_per_second(), 2.36e12);
  EXPECT_DOUBLE_EQ(meter.Utilization(8, 1.18e12, &note), 0.5);
  EXPECT_EQ(meter.Utilization(9, 2.4e12, &note), 1);  // slightly more is not noted
  EXPECT_TRUE(note.empty());
  EXPECT_EQ(meter.Utilization(10, 3e12, &note), 1);
  EXPECT_FALSE(note.empty());
}

TEST(PeakMeter, ADatasheetIsNotRaised) {
  PeakMeter meter;
  std::string note;
  meter.Offer(100, true);
  EXPECT_EQ(meter.Utilization(1, 150, &note), 1);
  EXPECT_THAT(note, AllOf(HasSubstr("datasheet"), HasSubstr("reported as 1")));
  EXPECT_DOUBLE_EQ(meter.Utilization(2, 50, &note), 0.5);
}

}  // namespace
}  // namespace zerofleet::trainer
