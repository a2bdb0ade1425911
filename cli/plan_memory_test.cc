// What one rank is planned to keep, against arithmetic by hand.
#include "cli/plan_memory.h"

#include "cli/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet {
namespace {

using ::testing::HasSubstr;

v1::Config ConfigOf(int stage, int workers) {
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.mutable_parallel()->set_zero_stage(stage);
  config.mutable_parallel()->set_workers(workers);
  config.mutable_batch()->set_global_sequences(workers);
  config.mutable_batch()->set_micro_sequences(1);
  return config;
}

double States(const MemoryPlan& plan) {
  return static_cast<double>(plan.Bytes(Space::kDevice, Category::kParameters) +
                             plan.Bytes(Space::kDevice, Category::kGradients) +
                             plan.Bytes(Space::kDevice, Category::kOptimizer));
}

TEST(PlanMemory, OneRankKeepsSixteenBytesAParameterAndPadding) {
  const MemoryPlan whole = PlanRankZero(ConfigOf(0, 1)).value();
  const auto optimizer = static_cast<double>(whole.Bytes(Space::kDevice, Category::kOptimizer));
  EXPECT_DOUBLE_EQ(States(whole), optimizer / 12 * 16);
  // Four workers split all of it in stage 3, to within the padding.
  EXPECT_NEAR(States(PlanRankZero(ConfigOf(3, 4)).value()) / States(whole), 0.25, 0.01);
}

TEST(PlanMemory, TellsEveryRowAndSum) {
  const v1::Config config = ConfigOf(2, 2);
  const MemoryPlan plan = PlanRankZero(config).value();
  const std::string text = MemoryPlanText(config, plan, 1e6);
  const nlohmann::ordered_json json = MemoryPlanJson(config, plan);
  ASSERT_EQ(json["rows"].size(), plan.rows.size());
  for (const MemoryRow& row : plan.rows) EXPECT_THAT(text, HasSubstr(row.name));
  EXPECT_EQ(json["device"]["optimizer"], plan.Bytes(Space::kDevice, Category::kOptimizer));
  EXPECT_THAT(text, HasSubstr("Memory of rank 0 of 2, stage 2, bf16"));
}

}  // namespace
}  // namespace zerofleet
