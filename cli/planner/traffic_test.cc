// The extrapolation from a few micro-batches against a whole schedule, and the division by links.
#include "cli/planner/traffic.h"

#include "cli/config/config.h"
#include "gtest/gtest.h"
#include "worker/parallel/mesh.h"
#include "worker/trainer/rank_plan.h"

namespace zerofleet::cli {
namespace {

v1::Config BatchesOf(int stage, int workers, int tensor, int64_t micro_batches) {
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.mutable_parallel()->set_zero_stage(stage);
  config.mutable_parallel()->set_workers(workers);
  config.mutable_parallel()->set_tensor(tensor);
  config.mutable_batch()->set_micro_sequences(1);
  return WithMicroBatches(config, micro_batches);
}

TEST(PlanTraffic, IsTheSchedulesToTheByte) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const int64_t micro_batches : {1, 2, 3, 4, 9}) {
      const v1::Config config = BatchesOf(stage, 4, 2, micro_batches);
      const auto schedule =
          trainer::RankPlan::Of(config, parallel::Mesh::OfOneNode(0, 4, 2)).value().Schedule().value();
      const StepTraffic traffic = PlanTraffic(config, 8).value();
      EXPECT_EQ(traffic.tensor.sum(), double(zero::BytesSent(schedule, parallel::kTensorGroup, 2)));
      EXPECT_EQ((traffic.gather + traffic.reduce).sum(), double(zero::BytesSent(schedule, parallel::kDataGroup, 2)))
          << "stage " << stage << ", " << micro_batches << " micro-batches";
      EXPECT_EQ(traffic.sum().link, 0);
    }
  }
}

// Muon's exchange happens once a step in both groups, and twice where delayed updates look ahead.
TEST(PlanTraffic, HasMuonsExchange) {
  v1::Config config = BatchesOf(2, 4, 2, 5);
  const StepTraffic adamw = PlanTraffic(config, 8).value();
  config.mutable_optimizer()->set_name("muon");
  const StepTraffic muon = PlanTraffic(config, 8).value();
  config.mutable_offload()->set_optimizer("cpu");
  config.mutable_offload()->mutable_delayed_update()->set_after_steps(3);
  const StepTraffic ahead = PlanTraffic(config, 8).value();
  const double in_data = muon.gather.sum() - adamw.gather.sum(), in_tensor = muon.tensor.sum() - adamw.tensor.sum();
  EXPECT_GT(in_data, 0);
  EXPECT_DOUBLE_EQ(in_tensor, 2 * in_data);  // the tensor group sends a whole part, the data group half of one
  EXPECT_DOUBLE_EQ(ahead.gather.sum() - muon.gather.sum(), in_data);
  EXPECT_DOUBLE_EQ(ahead.tensor.sum() - muon.tensor.sum(), in_tensor);
}

// On two nodes of two ranks, this rank sends to the other node its own node's sum of half of each unit, in fp32, and
// its own shard.
TEST(PlanTraffic, TellsNodesApart) {
  const StepTraffic one = PlanTraffic(BatchesOf(2, 4, 1, 1), 8).value(),
                    two = PlanTraffic(BatchesOf(2, 4, 1, 1), 2).value();
  EXPECT_GT(two.reduce.link, 0);
  EXPECT_EQ(two.reduce.link, two.reduce.peer);  // a quarter in fp32, and a half in bf16
  EXPECT_DOUBLE_EQ(two.gather.link, one.gather.sum() / 3);
  const StepTraffic apart = PlanTraffic(BatchesOf(2, 4, 2, 1), 2).value();  // each tensor group on a node
  EXPECT_EQ(apart.tensor.link, 0);
  EXPECT_EQ(apart.reduce.peer, 0);
}

TEST(PlanTraffic, MoreWorkersKeepTheirShareOfTheBatch) {
  const v1::Config config = WithWorkers(BatchesOf(2, 4, 2, 3), 16);
  EXPECT_EQ(MicroBatchesOf(config), 3);
  EXPECT_EQ(config.batch().global_sequences(), 24);
}

}  // namespace
}  // namespace zerofleet::cli
