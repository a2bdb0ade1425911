// ZeRO §6.3, M_D: checkpoints and gradients are in contiguous memory that is reserved in advance, so that no step
// allocates and none fails because memory is fragmented. Here this holds for all of a run's buffers, and those that are
// never in use together share memory: gradients lie where the backward leaves activations.
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/dry/dry_device.h"
#include "worker/model/presets.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

const model::Checkpointing kKinds[] = {{}, {.selective = true}, {.segment = 2}, {.segment = 1}};

class Defragmentation : public testing::TestWithParam<std::tuple<std::string, device::DType, int>> {
 protected:
  FleetSetup Fleet() const {
    const auto& [device, dtype, tensor] = GetParam();
    FleetSetup setup{.model = model::TestModelConfig(4, 24, 2, 10, 53),
                     .world_size = 2,
                     .dtype = dtype,
                     .global_sequences = 4,
                     .steps = 8,
                     .steps_ahead = 1,
                     .device = device,
                     .tensor = tensor,
                     .sequence = tensor > 1};
    if (device != "cpu") {  // an emulated GPU takes tens of milliseconds per sequence
      setup.global_sequences = 2;
      setup.steps = 2;
    }
    return setup;
  }
};

TEST_P(Defragmentation, SharedMemoryGivesTheBitsOfMemoryApart) {
  FleetSetup setup = Fleet();
  for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
    for (const model::Checkpointing& checkpointing : kKinds) {
      setup.checkpointing = checkpointing;
      setup.rows_apart = true;
      const FleetResult apart = TrainFleet(setup);
      setup.rows_apart = false;
      const FleetResult result = TrainFleet(setup);
      SCOPED_TRACE(testing::Message() << "stage " << setup.stage << ", segments of " << checkpointing.segment
                                      << (checkpointing.selective ? ", selective" : ""));
      EXPECT_THAT(result.losses, ElementsAreArray(apart.losses));
      EXPECT_THAT(result.grad_norms, ElementsAreArray(apart.grad_norms));
      EXPECT_EQ(result.states, apart.states);
    }
  }
}

std::vector<std::tuple<std::string, device::DType, int>> FleetsAndParts() {
  std::vector<std::tuple<std::string, device::DType, int>> cases;
  for (const std::string& device : UsableDevices()) {
    for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
      for (const int tensor : {1, 2}) cases.emplace_back(device, dtype, tensor);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Fleets, Defragmentation, testing::ValuesIn(FleetsAndParts()), [](const auto& info) {
  return std::get<0>(info.param) + "_" + device::DTypeName(std::get<1>(info.param)) + "_tensor_" +
         std::to_string(std::get<2>(info.param));
});

v1::ModelConfig Gpt2Small() {
  const model::ModelPreset& preset = *model::FindPreset("gpt2-124m");
  return model::TestModelConfig(preset.layers, preset.hidden, preset.heads, preset.context, preset.vocab);
}

// The figures that a run exports once it has taken all of its memory.
memory::ArenaFigures FiguresOf(const memory::MemoryPlan& plan) {
  device::DryDevice dry;
  const auto arena = *memory::Arena::Create(plan, memory::Space::kDevice, dry);
  for (const memory::MemoryRow& row : plan.rows) {
    if (row.space == memory::Space::kDevice) arena->Take(row.name);
  }
  return arena->figures();
}

// A GPT-2 of 124M parameters with 4 sequences of 1024 tokens per rank, on 2 ranks.
memory::MemoryPlan Gpt2Plan(int stage, device::DType dtype, const model::Checkpointing& checkpointing,
                            int64_t micro_batches = 1) {
  const v1::ModelConfig config = Gpt2Small();
  const auto device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const auto spec = *model::ModelSpec::Create(config);
  const auto model = *model::Model::Create(config, {dtype, 4, config.context(), checkpointing}, *device);
  const ZeroLayout layout(spec,
                          {.stage = stage, .dtype = dtype, .micro_batches = micro_batches, .rank = 0, .world_size = 2});
  return PlanMemory(*model, layout, 4 * config.context());
}

// Where fp32 gradients rest whole, the output embedding's are summed there from the head on, at the end of the others,
// so these keep a place of their own. Where blocks' gradients are written at rest, nothing else takes the logits'
// place.
TEST(Arena, HoldsLittleMoreThanAStepUsesAtOnce) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const model::Checkpointing& checkpointing : kKinds) {
        const memory::MemoryPlan plan = Gpt2Plan(stage, dtype, checkpointing);
        const memory::ArenaFigures figures = FiguresOf(plan);
        const std::string name = absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", segments of ",
                                              checkpointing.segment, checkpointing.selective ? ", selective" : "");
        RecordProperty(name, absl::StrCat("reserved ", figures.reserved, ", in use at once ", figures.allocated,
                                          ", shared ", plan.SharedBytes(memory::Space::kDevice)));
        const bool embedding_sums_at_rest = dtype == device::DType::kF32 && stage < 2;
        const bool written_at_rest = dtype == device::DType::kBF16 && stage < 2;
        EXPECT_LT(static_cast<double>(figures.reserved), (embedding_sums_at_rest ? 1.12
                                                          : written_at_rest      ? 1.08
                                                                                 : 1.06) *
                                                             static_cast<double>(figures.allocated))
            << name;
      }
    }
  }
}

// The exceptions are the gradients made while their own block's activations are still whole: the last block's, and the
// head's.
TEST(Arena, GradientsNeedNoMemoryOfTheirOwnBesideActivations) {
  for (int stage = 0; stage <= 3; ++stage) {
    const memory::MemoryPlan plan = Gpt2Plan(stage, device::DType::kBF16, {});
    const int64_t gradients = plan.Bytes(memory::Space::kDevice, memory::Category::kGradients);
    EXPECT_GT(plan.SharedBytes(memory::Space::kDevice), 0.9 * static_cast<double>(gradients)) << stage;
  }
  // Sums over micro-batches outlive each micro-batch.
  for (int stage = 0; stage <= 3; ++stage) {
    EXPECT_EQ(Gpt2Plan(stage, device::DType::kBF16, {}, 4).SharedBytes(memory::Space::kDevice), 0) << stage;
  }
}

}  // namespace
}  // namespace zerofleet::zero
