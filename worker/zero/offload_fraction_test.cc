// A part of the optimizer's states on the device, the others on the host (offload.fraction): the bits of a run whose
// states are in one place, each space with its share, and only the host's share on the link.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

void ExpectTheBitsOfOnePlace(const FleetSetup& setup, const std::vector<double>& fractions, const std::string& what) {
  const FleetResult on_device = TrainFleet(setup);
  for (const double fraction : fractions) {
    FleetSetup split = setup;
    split.placement = kStatesOnHost;
    split.placement.fraction = fraction;
    const FleetResult got = TrainFleet(split);
    EXPECT_THAT(got.losses, testing::ElementsAreArray(on_device.losses)) << what << ", fraction " << fraction;
    EXPECT_EQ(got.states, on_device.states) << what << ", fraction " << fraction;
  }
}

TEST(OffloadFraction, GivesTheBitsOfNoOffload) {
  using enum device::DType;
  for (const device::DType dtype : {kF32, kBF16, kF16}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (int world_size = 1; world_size <= 3; ++world_size) {
        ExpectTheBitsOfOnePlace(OffloadFleet(stage, world_size, dtype, 30), {0.35},
                                absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", world_size, " ranks"));
      }
    }
  }
  ExpectTheBitsOfOnePlace(OffloadFleet(2, 2, kBF16, 6), {0, 0.001, 0.5, 0.999, 1}, "all fractions");
}

TEST(OffloadFraction, GivesTheSameBitsWithMicroBatchesAndWhereTheUpdateRunsBesideTheSteps) {
  for (const bool away : {false, true}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (const int64_t micro_batches : {1, 3}) {
        FleetSetup setup = OffloadFleet(stage, 2, device::DType::kBF16, 5);
        if (away) setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
        setup.micro_batches = micro_batches;
        setup.steps_ahead = away ? 1 : 0;
        ExpectTheBitsOfOnePlace(setup, {0.4},
                                absl::StrCat("stage ", stage, ", ", micro_batches, " micro-batches, away ", away));
      }
    }
  }
}

TEST(OffloadFraction, MemoryAndTrafficAreThoseOfTheParts) {
  for (int stage = 1; stage <= 3; ++stage) {
    for (const double fraction : {0.25, 0.6}) {
      FleetSetup setup = OffloadFleet(stage, 2, device::DType::kBF16, 3);
      setup.placement = kStatesOnHost;
      setup.placement.fraction = fraction;
      RunFleet(setup, [&](TestRank& rank) {
        const ZeroLayout& layout = rank.layout();
        const int64_t all = layout.optimizer_elements(), stays = layout.states_on_device();
        constexpr int64_t kTogether = 32;  // states are split between the spaces at multiples of this
        EXPECT_NEAR(static_cast<double>(all - stays), fraction * static_cast<double>(all), kTogether);
        EXPECT_EQ(BytesIn(rank.arena(), memory::Category::kOptimizer), 12 * stays);
        EXPECT_EQ(BytesIn(rank.host_arena(), memory::Category::kOptimizer), 12 * (all - stays));
        EXPECT_EQ(BytesIn(rank.host_arena(), memory::Category::kGradients), 2 * (all - stays));
        const int64_t rest = stage == 1 ? layout.partition().TotalPaddedElements() : stays;
        EXPECT_EQ(BytesIn(rank.arena(), memory::Category::kGradients), 2 * rest);

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
  const FleetSetup setup = OffloadFleet(2, 1, device::DType::kBF16, 1);
  const ZeroLayout layout(*model::ModelSpec::Create(setup.model),
                          {.stage = 2, .placement = {.residence = StatePlacement::Residence::kHost, .fraction = 0.5}});
  EXPECT_EQ(layout.StaysOnDevice(0), layout.Owned(0).elements());
  EXPECT_EQ(layout.StaysOnDevice(layout.units() - 1), 0);
}

// Stored states do not depend on where they were: states of one split can be loaded into another.
TEST(OffloadFraction, StatesMoveBetweenSplits) {
  FleetSetup setup = OffloadFleet(3, 1, device::DType::kBF16, 4);
  const FleetResult whole = TrainFleet(setup);
  setup.placement = kStatesOnHost;
  setup.placement.fraction = 0.3;
  std::vector<std::vector<float>> kept;
  device::StepControl control;
  const auto all = [](const TestRank& rank) { return rank.layout().optimizer_elements(); };
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    for (const int64_t step : {1, 2}) rank.Step(step);
    const TrainingState& state = rank.engine().state();
    for (size_t v = 0; v < state.vector_count(); ++v) {
      kept.emplace_back(all(rank));
      ZF_CHECK(state.CopyOut(rank.device(), rank.stream(), v, 0, all(rank), kept[v].data()).ok());
    }
    control = rank.engine().control();
  });
  setup.placement.fraction = 0.9;
  RunFleet(setup, [&](TestRank& rank) {
    TrainingState& state = rank.engine().state();
    for (size_t v = 0; v < kept.size(); ++v) {
      ZF_CHECK(state.CopyIn(rank.device(), rank.stream(), v, 0, all(rank), kept[v].data()).ok());
    }
    ZF_CHECK(rank.engine().PublishLoadedState(control).ok());
    for (const int64_t step : {3, 4}) EXPECT_EQ(rank.Step(step).loss, whole.losses[step - 1]) << step;
  });
}

}  // namespace
}  // namespace zerofleet::zero
