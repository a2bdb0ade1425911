// ZeRO, table 3 and figure 6: the configurations C1 to C5, what each adds to the one before, and the order of the
// largest models that fit. examples/zero/ has them as files.
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/config/config.h"
#include "cli/planner/cluster_plan.h"
#include "cli/planner/paper_tables.h"
#include "gtest/gtest.h"
#include "worker/model/spec.h"

namespace zerofleet::cli {
namespace {

v1::Config ExampleOf(const PaperConfiguration& configuration) {
  return LoadConfig(absl::StrCat("examples/zero/", absl::AsciiStrToLower(configuration.name), ".yaml"), {}).value();
}

TEST(Configurations, ExamplesAreThePapers) {
  for (const PaperConfiguration& each : PaperConfigurations()) {
    const v1::Config config = ExampleOf(each);
    v1::Config applied = config;
    Apply(each, applied);
    EXPECT_EQ(applied.SerializeAsString(), config.SerializeAsString()) << each.name;
    if (each.papers_largest == 0) continue;
    const auto parameters = static_cast<double>(model::ModelSpec::Create(config.model())->parameters());
    EXPECT_NEAR(parameters / each.papers_largest, 1, 0.04) << each.name;
  }
}

// The models that the paper trained with a configuration also fit by this program's plan, on a V100 of 32 GB with 16
// ranks per node.
TEST(Configurations, WhatThePaperTrainedFits) {
  for (const PaperConfiguration& each : PaperConfigurations()) {
    const Cluster cluster = ParseCluster({.gpus = "400", .gpu = "v100", .node_gpus = "16"}).value();
    const MemoryNeed need = NeedOf(PlanMemoryOf(ExampleOf(each)).value(), cluster);
    EXPECT_TRUE(need.fits()) << each.name << " " << need.Verdict();
  }
}

TEST(Configurations, EachFitsALargerModelThanTheOneBefore) {
  const std::vector<ConfigurationReach> reaches = PlanPaperConfigurations().value();
  ASSERT_EQ(reaches.size(), 5);
  const auto largest = [&](int configuration) { return reaches[configuration - 1].largest; };
  EXPECT_LT(largest(1), largest(2));  // as in figure 6: 40B, 60B, 140B, 150B
  EXPECT_LT(largest(2), largest(4));
  EXPECT_LT(largest(4), largest(5));
  // C3 is C1 with gradients split, C4 adds P_a. Here gradients, whole or split, lie where activations were (M_D).
  EXPECT_LE(largest(1), largest(3));
  EXPECT_LT(largest(3), largest(4));
  for (const ConfigurationReach& reach : reaches) {
    EXPECT_GE(reach.largest, reach.papers_largest) << reach.name << ": the paper trained more than we say fits";
  }
}

}  // namespace
}  // namespace zerofleet::cli
