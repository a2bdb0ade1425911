// The memory planned for one rank, compared with arithmetic by hand.
#include "cli/planner/plan_memory.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/config/config.h"
#include "cli/planner/model_states.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
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

double States(const memory::MemoryPlan& plan) {
  return static_cast<double>(plan.Bytes(memory::Space::kDevice, memory::Category::kParameters) +
                             plan.Bytes(memory::Space::kDevice, memory::Category::kGradients) +
                             plan.Bytes(memory::Space::kDevice, memory::Category::kOptimizer));
}

double Elements(const memory::MemoryPlan& plan, const optim::OptimizerRow& optimizer) {
  return static_cast<double>(plan.Bytes(memory::Space::kDevice, memory::Category::kOptimizer)) /
         static_cast<double>(optimizer.StateBytesPerParameter());
}

TEST(PlanMemory, OneRankKeepsSixteenBytesPerParameterAndPadding) {
  const memory::MemoryPlan whole = PlanRankZero(ConfigOf(0, 1)).value().plan;
  EXPECT_DOUBLE_EQ(States(whole), Elements(whole, optim::Optimizers().front()) * 16);
  // Four workers split all of it in stage 3, to within the padding.
  EXPECT_NEAR(States(PlanRankZero(ConfigOf(3, 4)).value().plan) / States(whole), 0.25, 0.01);
}

TEST(PlanMemory, FormulasAndBuffersAgreeInEveryPrecisionWithEveryOptimizer) {
  for (const optim::OptimizerRow& optimizer : optim::Optimizers()) {
    for (const char* precision : {"bf16", "fp16", "fp32"}) {
      v1::Config config = ConfigOf(0, 1);
      config.set_precision(precision);
      config.mutable_optimizer()->set_name(optimizer.name);
      const memory::MemoryPlan plan = PlanRankZero(config).value().plan;
      EXPECT_DOUBLE_EQ(States(plan) / Elements(plan, optimizer), UnsplitBytesPerParameter(precision, optimizer))
          << precision << " " << optimizer.name;
    }
  }
}

// 6 micro-batches on 4 ranks take 2 rounds, and in the second one 2 ranks idle. No gradients are staged, and the step's
// scalars, which are exact sums, are larger.
TEST(PlanMemory, InTheOrderOfSamplesItSaysHowMuchCounts) {
  v1::Config config = ConfigOf(2, 4);
  config.mutable_batch()->set_global_sequences(8);
  const memory::MemoryPlan by_ranks = PlanRankZero(config).value().plan;
  config.mutable_reduce()->set_order("samples");
  config.mutable_batch()->set_global_sequences(6);
  const RankMemory rank = PlanRankZero(config).value();
  EXPECT_THAT(MemoryPlanText(config, rank, 1e5, Terminal()),
              HasSubstr("the 6 micro-batches of a step take 2 rounds of 4 ranks: 75.0% of"));
  EXPECT_EQ(MemoryPlanJson(config, rank)["round_efficiency"], 0.75);
  const auto bytes = [](const memory::MemoryPlan& plan, const std::string& prefix) {
    int64_t sum = 0;
    for (const memory::MemoryRow& row : plan.rows) sum += row.name.starts_with(prefix) ? row.bytes : 0;
    return sum;
  };
  EXPECT_EQ(bytes(rank.plan, "step scalars"), 5 * 512);
  EXPECT_EQ(bytes(by_ranks, "step scalars"), 5 * 32);
  EXPECT_GT(bytes(by_ranks, "gradient staging"), 0);
  EXPECT_EQ(bytes(rank.plan, "gradient staging"), 0);
  EXPECT_EQ(bytes(rank.plan, "gradients"), bytes(by_ranks, "gradients"));
}

// gpt2-tiny has 2 blocks. Only `block` computes products again: all those of a block but its last.
TEST(PlanMemory, TellsWhatEveryKindOfCheckpointingTakes) {
  v1::Config config = ConfigOf(3, 1);
  config.mutable_activation()->set_checkpointing("{every: 7}");
  const RankMemory rank = PlanRankZero(config).value();
  std::vector<std::string> names;
  for (const CheckpointingCost& cost : rank.checkpointing) {
    const std::string& kind = cost.activation.checkpointing();
    names.push_back(kind);
    EXPECT_EQ(cost.chosen, kind == "{every: 7}" && cost.activation.offload() == "none");
    *config.mutable_activation() = cost.activation;
    const memory::MemoryPlan plan = PlanRankZero(config).value().plan;
    EXPECT_EQ(cost.activation_bytes, plan.Bytes(memory::Space::kDevice, memory::Category::kActivations));
    EXPECT_EQ(cost.host_bytes, plan.Bytes(memory::Space::kHost, memory::Category::kActivations));
    const bool nothing = kind != "block";
    EXPECT_EQ(cost.recomputed_flops == 0, nothing) << kind;
    EXPECT_LT(cost.share_of_model, 1.0 / 3);
  }
  EXPECT_EQ(names.front(), "none");
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("none", "selective", "block", "block", "{every: 7}", "{every: 7}"));
  EXPECT_EQ(MemoryPlanJson(config, rank)["checkpointing"].size(), names.size());
  EXPECT_THAT(MemoryPlanText(config, rank, 1e6), HasSubstr("{every: 7} (chosen)"));
}

TEST(PlanMemory, TellsWhatPartitionAndOffloadTake) {
  v1::Config config = ConfigOf(2, 2);
  config.set_device("cpu");
  config.mutable_parallel()->set_tensor(2);
  config.mutable_model()->set_layers(8);
  config.mutable_activation()->set_checkpointing("block");
  config.mutable_activation()->set_partition(true);
  const RankMemory rank = PlanRankZero(config).value();
  std::map<std::string, const CheckpointingCost*> block;  // by where the inputs are kept
  for (const CheckpointingCost& cost : rank.checkpointing) {
    if (cost.activation.checkpointing() != "block") continue;
    block[absl::StrCat(cost.activation.partition() ? "split " : "", cost.activation.offload())] = &cost;
    EXPECT_EQ(cost.chosen, cost.activation.partition() && cost.activation.offload() == "none");
  }
  ASSERT_EQ(block.size(), 4);
  const int64_t input = block["cpu"]->host_bytes / 6;  // 6 of the 8 blocks' inputs are on the host
  const int64_t whole = block["none"]->activation_bytes;
  EXPECT_EQ(block["split none"]->activation_bytes, whole - 7 * input / 2);
  EXPECT_EQ(block["split cpu"]->activation_bytes, whole - 6 * input);
  EXPECT_EQ(block["split cpu"]->host_bytes, 6 * input / 2);
  EXPECT_THAT(MemoryPlanText(config, rank, 1e6), HasSubstr("block, partition (chosen)"));
}

TEST(PlanMemory, TellsEveryRowAndSum) {
  const v1::Config config = ConfigOf(2, 2);
  const RankMemory rank = PlanRankZero(config).value();
  const memory::MemoryPlan& plan = rank.plan;
  const std::string text = MemoryPlanText(config, rank, 1e6);
  const nlohmann::ordered_json json = MemoryPlanJson(config, rank);
  ASSERT_EQ(json["rows"].size(), plan.rows.size());
  for (const memory::MemoryRow& row : plan.rows) EXPECT_THAT(text, HasSubstr(row.name));
  EXPECT_EQ(json["device"]["optimizer"], plan.Bytes(memory::Space::kDevice, memory::Category::kOptimizer));
  EXPECT_THAT(text, HasSubstr("Memory of rank 0 of 2, stage 2, bf16"));
}

TEST(PlanMemory, TellsWhatEitherKindOfSaveNeeds) {
  v1::Config config = ConfigOf(2, 2);
  config.set_device("cpu");  // a GPU's states go through a staging buffer
  const RankMemory copied = PlanRankZero(config).value();
  config.mutable_checkpoint()->set_every_steps(0);
  const RankMemory streamed = PlanRankZero(config).value();
  const int64_t copy = copied.plan.Bytes(memory::Space::kHost) - streamed.plan.Bytes(memory::Space::kHost);
  for (const RankMemory* rank : {&copied, &streamed}) {
    const nlohmann::ordered_json saves = MemoryPlanJson(config, *rank)["saves"];
    EXPECT_EQ(saves["memory_bytes"], copy);
    EXPECT_EQ(saves["stream_bytes"], 0);
  }
  EXPECT_EQ(MemoryPlanJson(config, copied)["saves"]["snapshot"], "memory");
  EXPECT_EQ(MemoryPlanJson(config, streamed)["saves"]["snapshot"], "stream");
  EXPECT_THAT(MemoryPlanText(config, streamed, 1e6),
              HasSubstr("here it is stream, auto: no update follows the save at"));
}

TEST(PlanMemory, AddsWhatAGpuHasInUseAlready) {
  const v1::Config config = ConfigOf(0, 1);
  RankMemory rank = PlanRankZero(config).value();
  rank.device = device::DeviceMemory{.total_bytes = int64_t{80} << 30, .used_bytes = int64_t{1} << 30};
  const nlohmann::ordered_json json = MemoryPlanJson(config, rank);
  EXPECT_EQ(json["gpu"]["planned_bytes"], rank.plan.Bytes(memory::Space::kDevice) + (int64_t{1} << 30));
  EXPECT_THAT(MemoryPlanText(config, rank, 1e6), HasSubstr("of 80.0 GiB will be in use: 1.0 GiB outside the plan"));
  rank.device.reset();
  EXPECT_FALSE(MemoryPlanJson(config, rank).contains("gpu"));
}

}  // namespace
}  // namespace zerofleet::cli
