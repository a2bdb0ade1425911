// The schedule tells fleets apart; that the engine follows it is shown in engine_test.cc.
#include "worker/zero/schedule.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/step_sums.h"

namespace zerofleet::zero {
namespace {

std::vector<ScheduledCollective> Schedule(int stage, int64_t micro_batches = 1, int64_t layers = 3) {
  v1::ModelConfig config = model::TestModelConfig(layers, 24, 3, 10, 53);
  model::ModelSpec spec = *model::ModelSpec::Create(config);
  return *StepSchedule(
      {config, TestOptimizer(), spec, ZeroLayout(spec, {stage, device::DType::kBF16, micro_batches, 0, 2})});
}

int64_t Count(const std::vector<ScheduledCollective>& schedule, collective::Operation operation) {
  return std::count_if(schedule.begin(), schedule.end(), [&](const ScheduledCollective& one) {
    return one.operation == operation && one.unit != kScalarsUnit;
  });
}

TEST(StepSchedule, OneReductionAUnitAndTheGathersOfTheStage) {
  constexpr int kUnits = 5;  // embedding, three blocks, head
  for (int stage = 0; stage <= 3; ++stage)
    EXPECT_EQ(Count(Schedule(stage), collective::Operation::kReduceScatter), kUnits);
  for (int stage = 0; stage <= 2; ++stage) EXPECT_EQ(Count(Schedule(stage), collective::Operation::kAllGather), kUnits);
  EXPECT_EQ(Count(Schedule(3), collective::Operation::kAllGather), 2 * kUnits - 1);  // the head's norm is used once
}

TEST(StepSchedule, OnlySplitGradientsAreReducedEveryMicroBatch) {
  EXPECT_EQ(Count(Schedule(1, 4), collective::Operation::kReduceScatter), 5);
  EXPECT_EQ(Count(Schedule(2, 4), collective::Operation::kReduceScatter), 20);
}

TEST(StepSchedule, DescriptionsDifferWhereFleetsDo) {
  std::set<std::string> texts;
  for (int stage : {0, 1, 3}) texts.insert(DescribeSchedule(Schedule(stage)));
  texts.insert(DescribeSchedule(Schedule(3, 2)));
  texts.insert(DescribeSchedule(Schedule(3, 1, 4)));
  EXPECT_EQ(texts.size(), 5u);
  EXPECT_EQ(DescribeSchedule(Schedule(1)), DescribeSchedule(Schedule(1)));
}

// No op runs and no memory is taken, so a model that no machine holds has a schedule too.
TEST(StepSchedule, IsKnownForModelsThatFitNowhere) {
  v1::ModelConfig config = model::TestModelConfig(100, 16384, 128, 8192, 100000);
  model::ModelSpec spec = *model::ModelSpec::Create(config);
  const auto schedule =
      StepSchedule({config, TestOptimizer(), spec, ZeroLayout(spec, {3, device::DType::kBF16, 1, 5, 64})});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(Count(*schedule, collective::Operation::kReduceScatter), 102);
}

}  // namespace
}  // namespace zerofleet::zero
