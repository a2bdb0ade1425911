// ZeRO §3.2: activations take 12 * hidden * batch * sequence * layers elements, and activation checkpointing reduces
// them to about the square root for a third more compute. Korthikanti et al. 2022 §5: most of that reduction costs
// almost no compute.
//
// This program's are 16 elements of hidden size per token and block with no recomputation, 10 with selective
// checkpointing, and 1 with one input per block; the fp32 statistics of norms and attention are extra.
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

constexpr model::Checkpointing kNone, kBlock{.segment = 1}, kSelective{.selective = true}, kEveryTwo{.segment = 2},
    kEveryThree{.segment = 3};

class Checkpointing : public testing::TestWithParam<std::tuple<std::string, device::DType>> {
 protected:
  // Five blocks: segments of two leave a last one of one block, segments of three a last one of two.
  FleetSetup Fleet() const {
    const auto& [device, dtype] = GetParam();
    FleetSetup setup{.model = model::TestModelConfig(5, 24, 3, 10, 53),
                     .world_size = 2,
                     .dtype = dtype,
                     .steps = 30,
                     .device = device};
    if (device != "cpu") {  // an emulated GPU takes tens of milliseconds per sequence
      setup.global_sequences = 2;
      setup.steps = 2;
    }
    return setup;
  }
};

TEST_P(Checkpointing, GivesTheSameBitsInEveryStage) {
  FleetSetup setup = Fleet();
  const FleetResult plain = TrainFleet(setup);
  for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
    // As in stage 0, a pass gathers nothing in stages 1 and 2; on an emulated GPU each takes a second.
    if (setup.device != "cpu" && (setup.stage == 1 || setup.stage == 2)) continue;
    for (const model::Checkpointing& checkpointing : {kNone, kBlock, kSelective, kEveryTwo, kEveryThree}) {
      setup.checkpointing = checkpointing;
      const FleetResult result = TrainFleet(setup);
      SCOPED_TRACE(testing::Message() << "stage " << setup.stage << ", segments of " << checkpointing.segment
                                      << (checkpointing.selective ? ", selective" : ""));
      EXPECT_THAT(result.losses, ElementsAreArray(plain.losses));
      EXPECT_THAT(result.grad_norms, ElementsAreArray(plain.grad_norms));
      EXPECT_EQ(result.states, plain.states);
    }
  }
}

// Covers products without bias or fused GELU, and several micro-batches that reuse each other's activations.
TEST_P(Checkpointing, GivesTheSameBitsWithSeveralMicroBatches) {
  FleetSetup setup = Fleet();
  setup.stage = 3;
  setup.global_sequences = 12;
  setup.micro_batches = 3;
  setup.steps = setup.device == "cpu" ? 8 : 1;
  const FleetResult plain = TrainFleet(setup);
  for (const model::Checkpointing& checkpointing : {kSelective, kEveryThree}) {
    setup.checkpointing = checkpointing;
    EXPECT_EQ(TrainFleet(setup).states, plain.states);
  }
}

std::vector<std::tuple<std::string, device::DType>> Cases() {
  std::vector<std::tuple<std::string, device::DType>> cases;
  for (const std::string& device : UsableDevices()) {
    for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) cases.emplace_back(device, dtype);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Fleets, Checkpointing, testing::ValuesIn(Cases()), [](const auto& info) {
  return std::get<0>(info.param) + "_" + device::DTypeName(std::get<1>(info.param));
});

// Elements of the compute type per token: the paper's 12 * hidden * layers, as counted here.
TEST(Activations, AreThePapersFormula) {
  constexpr int64_t kLayers = 24, kHidden = 64, kHeads = 2, kTokens = 2 * 16;
  constexpr int64_t kStatistics = (4 + kHeads) * 4 / 2;  // per block, in elements of 2 bytes
  const auto elements = [&](const model::Checkpointing& checkpointing) {
    const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
    const auto model = *model::Model::Create(model::TestModelConfig(kLayers, kHidden, kHeads, 16, 64),
                                             {device::DType::kBF16, 2, 16, checkpointing}, *device);
    return model->ActivationBytes() / (2 * kTokens);
  };
  EXPECT_EQ(elements(kNone), kLayers * (16 * kHidden + kStatistics) + kHidden);
  EXPECT_EQ(elements(kBlock), kLayers * kHidden + 15 * kHidden + kStatistics + kHidden);
  EXPECT_EQ(elements({.segment = 4}), (6 + 3) * kHidden + 4 * (15 * kHidden + kStatistics) + kHidden);
  // "About the square root": with segments of n blocks, layers / n inputs and the activations of n blocks.
  EXPECT_LT(elements({.segment = 5}), elements(kNone) / 4);
  EXPECT_EQ(elements(kSelective), kLayers * (10 * kHidden + kHeads * 2) + 5 * kHidden + 4 + kHidden);
}

// The planned memory is reserved, and there is no other.
TEST(Activations, MeasuredAreThosePlanned) {
  for (const model::Checkpointing& checkpointing : {kNone, kBlock, kSelective, kEveryTwo}) {
    RunFleet({.stage = 3, .world_size = 2, .checkpointing = checkpointing}, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(1).ok());
      rank.Step(1);
      EXPECT_EQ(rank.arena().figures().categories[static_cast<int>(memory::Category::kActivations)].peak,
                rank.model().ActivationBytes());
    });
  }
}

}  // namespace
}  // namespace zerofleet::zero
