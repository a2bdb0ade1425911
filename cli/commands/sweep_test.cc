// Combinations in order, names that are files', the table's order.
#include "cli/commands/sweep.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sweep, AnAxisIsAKeyAndItsValues) {
  EXPECT_THAT(ParseGridAxis("a.b=1,2")->values, ElementsAre("1", "2"));
  EXPECT_THAT(ParseGridAxis("model.lora.targets=[q_proj,v_proj],[o_proj]")->values,
              ElementsAre("[q_proj,v_proj]", "[o_proj]"));
  EXPECT_EQ(ParseGridAxis("a.b=1")->key, "a.b");
  for (const char* wrong : {"a.b", "=1", "a=", "a=1,,2", "a=1,1"}) {
    EXPECT_THAT(std::string(ParseGridAxis(wrong).status().message()), HasSubstr("--grid: \"")) << wrong;
  }
}

TEST(Sweep, RunsAreAllCombinations) {
  const std::vector<SweepRun> runs =
      SweepRuns({{"optimizer.learning_rate", {"1e-3", "3e-4"}}, {"seed", {"1", "2"}}}).value();
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_THAT(runs[1].settings, ElementsAre("optimizer.learning_rate=1e-3", "seed=2"));
  EXPECT_EQ(runs[1].name, "learning-rate-1e-3_seed-2");
  EXPECT_FALSE(SweepRuns({{"seed", {"1"}}, {"seed", {"2"}}}).ok());
  const std::vector<SweepRun> odd = SweepRuns({{"data.train", {"[a/b]", "{a/b}"}}}).value();
  EXPECT_EQ(odd[0].name, "train--a-b-");
  EXPECT_EQ(odd[1].name, "train--a-b-_1");
}

TEST(Sweep, TheBestIsFirst) {
  const std::vector<GridAxis> axes = {{"seed", {"1", "2", "3"}}};
  const std::vector<SweepRun> runs = SweepRuns(axes).value();
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::string table =
      SweepTable(axes, runs, {{10, true, 3, none, 5}, {10, true, 2, none, 5}, {4, false, 1, none, 5}}, Terminal{});
  EXPECT_LT(table.find("seed-2"), table.find("seed-1"));
  EXPECT_LT(table.find("seed-1"), table.find("seed-3"));
  EXPECT_THAT(table, HasSubstr("4 (not ended)"));
  EXPECT_EQ(OutcomeOf("/nowhere", 3).steps, 0);
}

}  // namespace
}  // namespace zerofleet::cli
