// The plan's rows: what grows with the model, what does not, and the paper's bytes.
#include "worker/zero/memory_plan.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/zero/training_state.h"

namespace zerofleet::zero {
namespace {

struct Planned {
  int64_t parameters;
  memory::MemoryPlan plan;
};

Planned Plan(int stage, int world_size, int64_t layers, int64_t micro_batches = 1,
             device::DType dtype = device::DType::kBF16,
             const optim::OptimizerRow& optimizer = optim::Optimizers().front()) {
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  v1::ModelConfig config = model::TestModelConfig(layers, 32, 2, 16, 64);
  model::ModelSpec spec = *model::ModelSpec::Create(config);
  std::unique_ptr<model::Model> model = *model::Model::Create(config, {dtype, 2, 16}, *device);
  ZeroLayout layout(spec, {stage, dtype, micro_batches, 0, world_size, &optimizer});
  return {spec.parameters(), PlanMemory(*model, layout, 32)};
}

int64_t DeviceBytes(const Planned& planned, memory::Category category) {
  return planned.plan.Bytes(memory::Space::kDevice, category);
}

TEST(MemoryPlan, ModelStatesAreSixteenBytesAParameterBeforeSplitting) {
  Planned plain = Plan(0, 1, 4);
  int64_t states = DeviceBytes(plain, memory::Category::kParameters) +
                   DeviceBytes(plain, memory::Category::kGradients) + DeviceBytes(plain, memory::Category::kOptimizer);
  EXPECT_GE(states, 16 * plain.parameters);
  EXPECT_LT(states, 16.2 * static_cast<double>(plain.parameters));
}

// ZeRO §6.2: what is fused or gathered must not grow with the model's depth.
TEST(MemoryPlan, GatheredUnitsDoNotGrowWithDepth) {
  for (int stage : {0, 2, 3}) {
    EXPECT_EQ(DeviceBytes(Plan(stage, 2, 4), memory::Category::kGathered),
              DeviceBytes(Plan(stage, 2, 40), memory::Category::kGathered));
    EXPECT_EQ(DeviceBytes(Plan(stage, 2, 4), memory::Category::kBuffers),
              DeviceBytes(Plan(stage, 2, 40), memory::Category::kBuffers));
  }
}

TEST(MemoryPlan, SeveralMicroBatchesRestInFp32) {
  EXPECT_EQ(DeviceBytes(Plan(2, 2, 4, 3), memory::Category::kGradients),
            2 * DeviceBytes(Plan(2, 2, 4, 1), memory::Category::kGradients));
}

TEST(MemoryPlan, Fp32GradientsThatRestWholeNeedNoSlots) {
  EXPECT_EQ(DeviceBytes(Plan(1, 2, 4, 1, device::DType::kF32), memory::Category::kGathered), 0);
  EXPECT_GT(DeviceBytes(Plan(2, 2, 4, 1, device::DType::kF32), memory::Category::kGathered), 0);
}

// A block's gradient takes no fp32 memory: in stages 0 and 1 it is written where it rests, in 2 and 3 in a slot of the
// compute type. The embedding's and the head's are added to.
TEST(MemoryPlan, GradientsOfBlocksAreWrittenInTheComputeType) {
  for (const int stage : {0, 1, 2, 3}) {
    const Planned planned = Plan(stage, 2, 4);
    const v1::ModelConfig config = model::TestModelConfig(4, 32, 2, 16, 64);
    const ZeroLayout layout(*model::ModelSpec::Create(config), {.stage = stage, .rank = 0, .world_size = 2});
    int64_t slots = 0;
    for (const memory::MemoryRow& row : planned.plan.rows)
      slots += row.name.starts_with("gradient slot") ? row.bytes : 0;
    const coordinator::PartitionMap& units = layout.partition();
    const int64_t added = 4 * (units.PaddedElements(0) + units.PaddedElements(5));
    EXPECT_EQ(slots, added + (stage < 2 ? 0 : 2 * 2 * units.PaddedElements(1))) << "stage " << stage;
  }
}

TEST(MemoryPlan, TheHostHoldsOneSnapshotOfTheOwnedState) {
  for (const optim::OptimizerRow& optimizer : optim::Optimizers()) {
    Planned planned = Plan(3, 1, 4, 1, device::DType::kBF16, optimizer);
    int64_t snapshot = 0;
    for (const memory::MemoryRow& row : planned.plan.rows) {
      EXPECT_EQ(row.late, row.name == kSnapshotRow) << row.name;  // a run that does not save needs everything else
      if (row.late) snapshot += row.bytes;
    }
    EXPECT_EQ(snapshot, optimizer.StateBytesPerParameter() * planned.parameters) << optimizer.name;
    EXPECT_LT(planned.plan.Bytes(memory::Space::kHost) - snapshot, 4096) << optimizer.name;
  }
}

// A save in place needs no memory; one through the host needs two buffers, whose size has a limit that does not grow
// with the states.
TEST(MemoryPlan, ASaveFromTheStatesNeedsNoCopy) {
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  for (const int64_t hidden : {32, 1024}) {
    const v1::ModelConfig config = model::TestModelConfig(2, hidden, 2, 16, 64);
    const model::ModelSpec spec = *model::ModelSpec::Create(config);
    const auto model = *model::Model::Create(config, {device::DType::kBF16, 2, 16}, *device);
    const ZeroLayout layout(spec, {.stage = 2, .rank = 0, .world_size = 2});
    const auto host_bytes = [&](SaveFrom saves) {
      return PlanMemory(*model, layout, 32, {.saves = saves}).Bytes(memory::Space::kHost);
    };
    const int64_t none = host_bytes(SaveFrom::kStates), stored = TrainingState::StoredBytes(layout);
    EXPECT_EQ(host_bytes(SaveFrom::kSnapshot) - none, stored);
    EXPECT_EQ(host_bytes(SaveFrom::kStagedStates) - none, 2 * std::min(stored, int64_t{4} << 20));
  }
}

// Two snapshots of its own and two of another rank, each with room for what any rank owns.
TEST(MemoryPlan, SnapshotsAreOnTheHost) {
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const v1::ModelConfig config = model::TestModelConfig(4, 32, 2, 16, 64);
  const model::ModelSpec spec = *model::ModelSpec::Create(config);
  const auto model = *model::Model::Create(config, {device::DType::kBF16, 2, 16}, *device);
  const ZeroLayout layout(spec, {.stage = 2, .rank = 2, .world_size = 3});
  const auto host_bytes = [&](bool snapshots, bool replicas) {
    return PlanMemory(*model, layout, 32, {.snapshots = snapshots, .replicas = replicas}).Bytes(memory::Space::kHost);
  };
  const int64_t most = TrainingState::MostStoredBytes(layout);
  EXPECT_GE(3 * most, 12 * spec.parameters());
  EXPECT_EQ(host_bytes(true, false) - host_bytes(false, false), 2 * most);
  EXPECT_EQ(host_bytes(true, true) - host_bytes(false, false), 4 * most);
}

TEST(MemoryPlan, EveryStateVectorIsARow) {
  for (const optim::OptimizerRow& optimizer : optim::Optimizers()) {
    const Planned planned = Plan(2, 2, 4, 1, device::DType::kBF16, optimizer);
    std::vector<std::string> names;
    for (const memory::MemoryRow& row : planned.plan.rows) {
      if (row.category == memory::Category::kOptimizer) names.push_back(row.name);
    }
    ASSERT_EQ(names.size(), optimizer.vectors.size());
    for (size_t v = 0; v < names.size(); ++v) EXPECT_EQ(names[v], optimizer.vectors[v].name);
  }
}

}  // namespace
}  // namespace zerofleet::zero
