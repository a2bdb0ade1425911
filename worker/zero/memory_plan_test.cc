// The plan's rows: what grows with the model, what does not, and the paper's bytes.
#include "worker/zero/memory_plan.h"

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet {
namespace {

struct Planned {
  int64_t parameters;
  MemoryPlan plan;
};

Planned Plan(int stage, int world_size, int64_t layers, int64_t micro_batches = 1, DType dtype = DType::kBF16,
             const OptimizerRow& optimizer = Optimizers().front()) {
  std::unique_ptr<Device> device = *CreateDevice({.kind = "cpu", .threads = 1});
  v1::ModelConfig config = TestModelConfig(layers, 32, 2, 16, 64);
  ModelSpec spec = *ModelSpec::Create(config);
  std::unique_ptr<Model> model = *Model::Create(config, dtype, *device, 2, 16);
  ZeroLayout layout(spec, {stage, dtype, micro_batches, 0, world_size, &optimizer});
  return {spec.parameters(), PlanMemory(*model, layout, 32)};
}

int64_t DeviceBytes(const Planned& planned, Category category) { return planned.plan.Bytes(Space::kDevice, category); }

TEST(MemoryPlan, ModelStatesAreSixteenBytesAParameterBeforeSplitting) {
  Planned plain = Plan(0, 1, 4);
  int64_t states = DeviceBytes(plain, Category::kParameters) + DeviceBytes(plain, Category::kGradients) +
                   DeviceBytes(plain, Category::kOptimizer);
  EXPECT_GE(states, 16 * plain.parameters);
  EXPECT_LT(states, 16.2 * static_cast<double>(plain.parameters));
}

// ZeRO §6.2: what is fused or gathered must not grow with the model's depth.
TEST(MemoryPlan, GatheredUnitsDoNotGrowWithDepth) {
  for (int stage : {0, 2, 3}) {
    EXPECT_EQ(DeviceBytes(Plan(stage, 2, 4), Category::kGathered),
              DeviceBytes(Plan(stage, 2, 40), Category::kGathered));
    EXPECT_EQ(DeviceBytes(Plan(stage, 2, 4), Category::kBuffers), DeviceBytes(Plan(stage, 2, 40), Category::kBuffers));
  }
}

TEST(MemoryPlan, SeveralMicroBatchesRestInFp32) {
  EXPECT_EQ(DeviceBytes(Plan(2, 2, 4, 3), Category::kGradients),
            2 * DeviceBytes(Plan(2, 2, 4, 1), Category::kGradients));
}

TEST(MemoryPlan, Fp32GradientsThatRestWholeNeedNoSlots) {
  EXPECT_EQ(DeviceBytes(Plan(1, 2, 4, 1, DType::kF32), Category::kGathered), 0);
  EXPECT_GT(DeviceBytes(Plan(2, 2, 4, 1, DType::kF32), Category::kGathered), 0);
}

TEST(MemoryPlan, TheHostHoldsOneSnapshotOfTheOwnedState) {
  for (const OptimizerRow& optimizer : Optimizers()) {
    Planned planned = Plan(3, 1, 4, 1, DType::kBF16, optimizer);
    int64_t snapshot = 0;
    for (const MemoryRow& row : planned.plan.rows) {
      EXPECT_EQ(row.late, row.name == kSnapshotRow) << row.name;  // a run that does not save needs everything else
      if (row.late) snapshot += row.bytes;
    }
    EXPECT_EQ(snapshot, optimizer.StateBytesPerParameter() * planned.parameters) << optimizer.name;
    EXPECT_LT(planned.plan.Bytes(Space::kHost) - snapshot, 4096) << optimizer.name;
  }
}

TEST(MemoryPlan, EveryStateVectorIsARow) {
  for (const OptimizerRow& optimizer : Optimizers()) {
    const Planned planned = Plan(2, 2, 4, 1, DType::kBF16, optimizer);
    std::vector<std::string> names;
    for (const MemoryRow& row : planned.plan.rows) {
      if (row.category == Category::kOptimizer) names.push_back(row.name);
    }
    ASSERT_EQ(names.size(), optimizer.vectors.size());
    for (size_t v = 0; v < names.size(); ++v) EXPECT_EQ(names[v], optimizer.vectors[v].name);
  }
}

}  // namespace
}  // namespace zerofleet
