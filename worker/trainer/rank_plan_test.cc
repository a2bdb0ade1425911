// From configurations to what a rank is; the numbers that follow are held by the planner's and ZeRO's own tests.
#include "worker/trainer/rank_plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/plain_config_testing.h"

namespace zerofleet::trainer {
namespace {

using zero::StatePlacement;

const parallel::Mesh kThirdOfFour = parallel::Mesh::OfOneNode(2, 4, 1);

StatePlacement PlacementIn(const v1::Config& config) {
  return RankPlan::Of(config, kThirdOfFour)->layout().options().placement;
}

TEST(RankPlan, SaysWhatTheConfigurationSays) {
  const RankPlan plan = *RankPlan::Of(PlainConfig(), kThirdOfFour);
  EXPECT_EQ(plan.layout().options().rank, 2);
  EXPECT_EQ(plan.layout().options().world_size, 4);
  EXPECT_EQ(plan.layout().options().micro_batches, 1);
  EXPECT_EQ(plan.run().sequences, 2);
  EXPECT_EQ(plan.run().time, 32);
  EXPECT_EQ(plan.spec().part().count, 1);
  EXPECT_EQ(plan.run().sharing.parts, 1);
}

TEST(RankPlan, APartOfATensorGroupHasItsOwnTensors) {
  v1::Config config = PlainConfig();
  config.mutable_parallel()->set_tensor(2);
  const RankPlan plan = *RankPlan::Of(config, parallel::Mesh::OfOneNode(3, 4, 2));
  EXPECT_EQ(plan.spec().part().index, 1);
  EXPECT_EQ(plan.layout().options().world_size, 2);
  EXPECT_EQ(plan.run().sharing.parts, 2);
}

// As in the configuration of older checkpoints: without the key.
TEST(RankPlan, NothingLeavesTheDeviceUnlessItIsSaid) {
  v1::Config config = PlainConfig();
  config.clear_offload();
  EXPECT_FALSE(PlacementIn(config).leaves_device());
}

TEST(RankPlan, StatesAreWhereOffloadPutsThem) {
  v1::Config config = PlainConfig();
  config.mutable_offload()->set_optimizer("nvme");
  EXPECT_EQ(PlacementIn(config).residence, StatePlacement::Residence::kFile);
  config.mutable_offload()->set_optimizer("cpu");
  config.mutable_offload()->set_fraction(0.25);
  EXPECT_EQ(PlacementIn(config).residence, StatePlacement::Residence::kHost);
  EXPECT_EQ(PlacementIn(config).fraction, 0.25);
  EXPECT_EQ(PlacementIn(config).timing, StatePlacement::Timing::kInStep);
  config.mutable_offload()->set_speculative(true);
  EXPECT_EQ(PlacementIn(config).timing, StatePlacement::Timing::kSpeculative);
  config.mutable_offload()->set_speculative(false);
  config.mutable_offload()->set_fraction(1);
  config.mutable_offload()->mutable_delayed_update()->set_after_steps(3);
  EXPECT_EQ(PlacementIn(config).timing, StatePlacement::Timing::kDelayed);
  config.mutable_parallel()->set_zero_stage(3);
  config.mutable_offload()->set_parameters("cpu");
  EXPECT_TRUE(PlacementIn(config).parameters_on_host);
}

TEST(RankPlan, AModelThatCannotBeSharedIsRefused) {
  v1::Config config = PlainConfig();
  config.mutable_model()->set_heads(3);
  config.mutable_parallel()->set_tensor(2);
  EXPECT_FALSE(RankPlan::Of(config, parallel::Mesh::OfOneNode(0, 4, 2)).ok());
}

}  // namespace
}  // namespace zerofleet::trainer
