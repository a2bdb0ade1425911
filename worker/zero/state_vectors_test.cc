// What operators are shown is what the plan reserves.
#include "worker/zero/state_vectors.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {
namespace {

TEST(StateVectors, HaveTheBytesOfThePlan) {
  const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const v1::ModelConfig config = model::TestModelConfig(3, 24, 3, 10, 53);
  const model::ModelSpec spec = *model::ModelSpec::Create(config);
  for (int stage = 0; stage <= 3; ++stage) {
    for (int64_t micro_batches : {1, 2}) {
      const ZeroLayout layout(spec, {stage, device::DType::kBF16, micro_batches, 1, 3});
      const std::unique_ptr<model::Model> model = *model::Model::Create(config, {device::DType::kBF16, 2, 10}, *device);
      const memory::MemoryPlan plan = PlanMemory(*model, layout, 20);
      const v1::PartitionStatus status = coordinator::PartitionStatusOf(layout.partition(), StateVectors(layout));
      int64_t optimizer = 0;
      for (const v1::StateBytes& state : status.ranks(1).states()) {
        const auto row = std::find_if(plan.rows.begin(), plan.rows.end(),
                                      [&](const memory::MemoryRow& one) { return one.name == state.name(); });
        ASSERT_NE(row, plan.rows.end()) << state.name();
        EXPECT_EQ(state.bytes(), row->bytes) << state.name() << ", stage " << stage;
        if (row->category == memory::Category::kOptimizer) optimizer += state.bytes();
      }
      EXPECT_EQ(optimizer, plan.Bytes(memory::Space::kDevice, memory::Category::kOptimizer));  // none is left out
    }
  }
}

}  // namespace
}  // namespace zerofleet::zero
