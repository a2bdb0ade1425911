// The order of combinations, names that can be file names, the order of the table.
#include "cli/commands/sweep.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cli/config/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json.h"
#include "worker/trainer/rules.h"

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
}

TEST(Sweep, KeysWithTheSameLastWordAreCalledInFull) {
  const std::vector<GridAxis> axes = {
      {"evaluate.every_steps", {"2"}}, {"checkpoint.every_steps", {"4"}}, {"optimizer.beta1", {"0.5"}}};
  const std::vector<SweepRun> runs = SweepRuns(axes).value();
  EXPECT_EQ(runs[0].name, "evaluate.every-steps-2_checkpoint.every-steps-4_beta1-0.5");
  const std::string table = SweepTable(axes, runs, {{}}, Terminal{});
  EXPECT_THAT(table, HasSubstr("checkpoint.every_steps"));
  EXPECT_THAT(table, HasSubstr("  beta1"));
}

// Writes a report to disk, for a sweep to read its outcome.
class SweepOutcomeTest : public testing::Test {
 protected:
  SweepOutcomeTest() {
    config_ = DefaultConfig("gpt2-124m").value();
    config_.set_steps(4);
    config_.mutable_checkpoint()->set_dir("sweep/a");
  }
  ~SweepOutcomeTest() override { std::remove(path_.c_str()); }

  absl::StatusOr<SweepOutcome> OfReport(const v1::Config& started_with, const std::string& lines) {
    std::ofstream(path_) << absl::StrCat(R"({"event":"start","config":)", DumpJson(ProtoToJson(started_with)), "}\n",
                                         lines);
    return OutcomeOf(path_, config_);
  }

  static std::string Step(int step) { return absl::StrCat(R"({"event":"step","loss":2,"step":)", step, "}\n"); }
  static std::string End(const char* stopped) { return absl::StrCat(R"({"event":"end","step":2)", stopped, "}\n"); }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/sweep_test_", getpid(), ".jsonl");
  v1::Config config_;
};

TEST_F(SweepOutcomeTest, IsThatOfTheSameConfigurationAlone) {
  EXPECT_EQ(OutcomeOf("/nowhere", config_)->steps, 0);
  v1::Config other = config_;
  other.mutable_checkpoint()->set_dir("./sweep/a");  // another spelling of the same directory
  EXPECT_EQ(OfReport(other, Step(2))->steps, 2);
  other.mutable_optimizer()->set_learning_rate(0.5);
  config_.mutable_optimizer()->set_learning_rate(0.25);
  for (const std::string& lines : {std::string(), Step(4) + End("")}) {
    const absl::Status status = OfReport(other, lines).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("is the report of a run with optimizer.learning_rate: 0.5, not 0.25"));
  }
}

TEST_F(SweepOutcomeTest, AFractionThatThePlanChoseIsTheSame) {
  v1::Config chosen = config_;
  chosen.mutable_offload()->set_fraction(0.5);
  config_.mutable_offload()->set_fraction(trainer::kFractionByPlan);
  EXPECT_TRUE(OfReport(chosen, Step(2)).ok());
}

TEST_F(SweepOutcomeTest, HasEndedUnlessItWasStopped) {
  EXPECT_FALSE(OfReport(config_, Step(2))->ended);
  EXPECT_FALSE(OfReport(config_, Step(2) + End(R"(,"stopped":true)"))->ended);
  EXPECT_TRUE(OfReport(config_, Step(2) + End(R"(,"stopped":false)"))->ended);  // ended by evaluate.patience
  EXPECT_FALSE(OfReport(config_, Step(2) + End(""))->ended);                    // a report of an old version
  EXPECT_TRUE(OfReport(config_, Step(4) + End(""))->ended);
}

TEST_F(SweepOutcomeTest, OfAReportThatCannotBeReadIsAnError) {
  EXPECT_EQ(OfReport(config_, "{\n" + Step(2)).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace zerofleet::cli
