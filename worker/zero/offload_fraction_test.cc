// A part of the optimizer's states on the device, the others on the host (offload.fraction): the bits of a run whose
// states are in one place, each space with its part, and no more on the link than what is on the host.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/away_device_testing.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

FleetSetup Small(int stage, int world_size, device::DType dtype, int64_t steps) {
  return {.model = model::TestModelConfig(2, 24, 3, 10, 53),
          .stage = stage,
          .world_size = world_size,
          .dtype = dtype,
          .global_sequences = 6,
          .steps = steps};
}

void ExpectTheSameBits(FleetSetup setup, const std::vector<double>& fractions, const std::string& what) {
  setup.offload = false;
  const FleetResult on_device = TrainFleet(setup);
  setup.offload = true;
  for (const double fraction : fractions) {
    setup.offload_fraction = fraction;
    const FleetResult split = TrainFleet(setup);
    EXPECT_THAT(split.losses, ElementsAreArray(on_device.losses)) << what << ", fraction " << fraction;
    EXPECT_EQ(split.states, on_device.states) << what << ", fraction " << fraction;
  }
}

TEST(OffloadFraction, GivesTheBitsOfNoOffload) {
  using enum device::DType;
  for (const device::DType dtype : {kF32, kBF16, kF16}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (int world_size = 1; world_size <= 3; ++world_size) {
        ExpectTheSameBits(Small(stage, world_size, dtype, 30), {0.35, 0.8},
                          absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", world_size, " ranks"));
      }
    }
  }
  ExpectTheSameBits(Small(2, 2, kBF16, 6), {0, 0.001, 0.5, 0.999, 1}, "all fractions");
}

TEST(OffloadFraction, GivesTheSameBitsWithMicroBatchesAndWhereTheUpdateRunsBesideTheSteps) {
  for (const bool away : {false, true}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (const int64_t micro_batches : {1, 3}) {
        FleetSetup setup = Small(stage, 2, device::DType::kBF16, 5);
        if (away) setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
        setup.micro_batches = micro_batches;
        setup.steps_ahead = away ? 1 : 0;
        ExpectTheSameBits(setup, {0.4},
                          absl::StrCat("stage ", stage, ", ", micro_batches, " micro-batches, away ", away));
      }
    }
  }
}

int64_t In(const memory::Arena& arena, memory::Category category) {
  return arena.figures().categories[static_cast<int>(category)].current;
}

TEST(OffloadFraction, MemoryAndTrafficAreThoseOfTheParts) {
  for (int stage = 1; stage <= 3; ++stage) {
    for (const double fraction : {0.25, 0.6}) {
      FleetSetup setup = Small(stage, 2, device::DType::kBF16, 3);
      setup.offload = true;
      setup.offload_fraction = fraction;
      RunFleet(setup, [&](TestRank& rank) {
        const ZeroLayout& layout = rank.layout();
        const int64_t all = layout.optimizer_elements(), stays = layout.states_on_device();
        constexpr int64_t kTogether = 32;  // elements, all in one place
        EXPECT_NEAR(static_cast<double>(all - stays), fraction * static_cast<double>(all), kTogether);
        EXPECT_EQ(In(rank.arena(), memory::Category::kOptimizer), 12 * stays);
        EXPECT_EQ(In(rank.host_arena(), memory::Category::kOptimizer), 12 * (all - stays));
        EXPECT_EQ(In(rank.host_arena(), memory::Category::kGradients), 2 * (all - stays));
        const int64_t rest = stage == 1 ? layout.partition().TotalPaddedElements() : stays;
        EXPECT_EQ(In(rank.arena(), memory::Category::kGradients), 2 * rest);

        ZF_CHECK(rank.engine().Initialize(1).ok());
        for (int64_t step = 1; step <= setup.steps; ++step) rank.Step(step);
        int64_t leave = 0;
        for (int u = 0; u < layout.units(); ++u) leave += layout.Owned(u).elements() - layout.StaysOnDevice(u);
        EXPECT_NEAR(static_cast<double>(leave), static_cast<double>(all - stays), 32.0 * layout.units());  // padding
        const device::LinkTraffic link = rank.engine().link();
        EXPECT_EQ(link.to_host.bytes, setup.steps * leave * 2);
        EXPECT_EQ(link.to_device.bytes, setup.steps * leave * 2);
      });
    }
  }
}

// The units that a forward pass needs first stay.
TEST(OffloadFraction, TheFirstUnitsStay) {
  const FleetSetup setup = Small(2, 1, device::DType::kBF16, 1);
  const ZeroLayout layout(*model::ModelSpec::Create(setup.model),
                          {.stage = 2, .offload = true, .offload_fraction = 0.5});
  EXPECT_EQ(layout.StaysOnDevice(0), layout.Owned(0).elements());
  EXPECT_EQ(layout.StaysOnDevice(layout.units() - 1), 0);
}

// What is stored and loaded does not say where it was: states of one split go into another.
TEST(OffloadFraction, StatesMoveBetweenSplits) {
  FleetSetup setup = Small(3, 1, device::DType::kBF16, 4);
  const FleetResult whole = TrainFleet(setup);
  setup.offload = true;
  setup.offload_fraction = 0.3;
  std::vector<std::vector<float>> kept;
  device::StepControl control;
  const auto all = [](const TestRank& rank) { return rank.layout().optimizer_elements(); };
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    for (const int64_t step : {1, 2}) rank.Step(step);
    const TrainingState& state = rank.engine().state();
    for (size_t v = 0; v < state.vector_count(); ++v) {
      kept.emplace_back(all(rank));
      state.CopyOut(rank.device(), rank.stream(), v, 0, all(rank), kept[v].data());
    }
    control = rank.engine().control();
  });
  setup.offload_fraction = 0.9;
  RunFleet(setup, [&](TestRank& rank) {
    TrainingState& state = rank.engine().state();
    for (size_t v = 0; v < kept.size(); ++v) {
      state.CopyIn(rank.device(), rank.stream(), v, 0, all(rank), kept[v].data());
    }
    ZF_CHECK(rank.engine().PublishLoadedState(control).ok());
    for (const int64_t step : {3, 4}) EXPECT_EQ(rank.Step(step).loss, whole.losses[step - 1]) << step;
  });
}

}  // namespace
}  // namespace zerofleet::zero
