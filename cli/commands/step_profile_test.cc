// From the ops that processes have counted to a table of a step.
#include "cli/commands/step_profile.h"

#include <gmock/gmock.h>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

std::map<std::string, device::OpFigures> WarmUp() {
  return {{"DecideStep", {.calls = 1, .seconds = 0.1}},
          {"FillNormal", {.calls = 9, .seconds = 3}},
          {"LinearForward", {.calls = 50, .seconds = 9, .flops = 1.5e11, .bytes = 5e5}}};
}

std::map<std::string, device::OpFigures> TwoStepsMore() {
  return {{"DecideStep", {.calls = 3, .seconds = 0.101}},
          {"FillNormal", {.calls = 9, .seconds = 3}},
          {"LayerNormForward", {.calls = 50, .seconds = 0.04, .bytes = 2e8}},
          {"LinearForward", {.calls = 150, .seconds = 13, .flops = 4.5e11, .bytes = 1.5e6}}};
}

TEST(StepProfileTest, FiguresArePerStepBesideTheLongerOfBothIdealTimes) {
  const std::map<std::string, device::OpFigures> other = {{"LinearForward", {.calls = 1}}};  // no step
  const std::vector<RankProfile> ranks =
      ProfilesBetween({{"999", WarmUp()}}, {{"1000", TwoStepsMore()}, {"998", other}, {"999", TwoStepsMore()}},
                      {.flops_per_second = 1e11, .bytes_per_second = 1e10});
  ASSERT_THAT(ranks, SizeIs(2));
  EXPECT_EQ(ranks[1].steps, 3) << "the later process, of which nothing was known";
  const RankProfile& rank = ranks[0];
  EXPECT_EQ(rank.steps, 2);
  EXPECT_THAT(rank.at_start, ElementsAre(Pair("FillNormal", 3)));
  ASSERT_THAT(rank.ops, SizeIs(3));
  EXPECT_EQ(rank.ops[0].name, "LinearForward");
  EXPECT_EQ(rank.ops[0].calls, 50);
  EXPECT_DOUBLE_EQ(rank.ops[0].ideal_seconds, 1.5);
  EXPECT_DOUBLE_EQ(rank.ops[0].gap(), 0.5);
  EXPECT_EQ(rank.ops[1].name, "LayerNormForward");
  EXPECT_DOUBLE_EQ(rank.ops[1].ideal_seconds, 0.01);
  const std::string table = ProfileTable(rank, 2.5).Render();
  EXPECT_THAT(table, HasSubstr("LinearForward"));
  EXPECT_THAT(table, HasSubstr("75.0%")) << "its ideal time of its time";
  EXPECT_THAT(table, HasSubstr("the rest of a step"));
  EXPECT_THAT(table, HasSubstr("479.5")) << "2.5 s less 2 s, 20 ms and 0.5 ms";
  EXPECT_EQ(ProfileJson(rank)["ops"][0]["seconds"], 2.0);
}

TEST(StepProfileTest, PhasesAreMeansOfTheirHistograms) {
  EXPECT_THAT(PhasesIn({{"zerofleet_worker_step_duration_seconds_sum{phase=\"forward\"}", 6},
                        {"zerofleet_worker_step_duration_seconds_count{phase=\"forward\"}", 3},
                        {"zerofleet_worker_step_duration_seconds_count{phase=\"data\"}", 3},
                        {"zerofleet_worker_step", 3}}),
              ElementsAre(Pair("forward", 2)));
}

}  // namespace
}  // namespace zerofleet::cli
