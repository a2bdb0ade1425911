// In the order of samples the number of ranks changes no bit: of losses, norms, or any state.
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/step_sums.h"

namespace zerofleet::zero {
namespace {

constexpr int64_t kLeaves = 6;  // the last round of 4 or 5 ranks is not full

FleetSetup InSampleOrder(int stage, int world_size) {
  FleetSetup setup;
  setup.stage = stage;
  setup.world_size = world_size;
  setup.leaves = kLeaves;
  setup.steps = 3;
  setup.device = UsableDevices().front();
  return setup;
}

void ExpectSameBits(FleetResult got, FleetResult want, const std::string& what) {
  // A skipped step's norm may be no number, which is not equal to itself.
  for (FleetResult* const one : {&got, &want}) {
    for (double& norm : one->grad_norms) norm = std::isnan(norm) ? -1 : norm;
  }
  EXPECT_EQ(got.losses, want.losses) << what;
  EXPECT_EQ(got.grad_norms, want.grad_norms) << what;
  EXPECT_TRUE(got.states == want.states) << what;
}

TEST(SampleOrder, RanksAndStagesChangeNoBit) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    FleetSetup alone = InSampleOrder(2, 1);
    alone.dtype = dtype;
    const FleetResult want = TrainFleet(alone);
    EXPECT_NE(want.losses.back(), want.losses.front());
    for (const auto& [stage, ranks] :
         std::vector<std::pair<int, int>>{{0, 1}, {0, 4}, {1, 3}, {1, 5}, {2, 2}, {2, 4}, {3, 1}, {3, 4}, {3, 6}}) {
      FleetSetup setup = InSampleOrder(stage, ranks);
      setup.dtype = dtype;
      ExpectSameBits(TrainFleet(setup), want,
                     absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", ranks, " ranks"));
    }
  }
}

// On an emulated GPU a sequence takes tens of milliseconds: few of them, and few fleets.
TEST(SampleOrder, NorDoTheyOnOtherDevices) {
  for (const std::string& device : UsableDevices()) {
    if (device == "cpu") continue;
    const auto run = [&](int stage, int ranks) {
      FleetSetup setup = InSampleOrder(stage, ranks);
      setup.model = model::TestModelConfig(2, 24, 2, 10, 53);
      setup.device = device;
      setup.global_sequences = kLeaves;
      setup.steps = 2;
      return TrainFleet(setup);
    };
    const FleetResult want = run(2, 1);
    for (const auto& [stage, ranks] : std::vector<std::pair<int, int>>{{0, 2}, {3, 3}}) {
      ExpectSameBits(run(stage, ranks), want, absl::StrCat(device, ", stage ", stage, ", ", ranks, " ranks"));
    }
  }
}

// Steps with fewer micro-batches than the layout's largest, some with fewer than there are ranks.
TEST(SampleOrder, ASmallerStepHasTheSameBitsToo) {
  const auto leaves_of = [](int64_t step) { return step == 2 ? kLeaves : step == 1 ? 3 : 4; };
  FleetSetup alone = InSampleOrder(2, 1);
  alone.leaves_of = leaves_of;
  const FleetResult want = TrainFleet(alone);
  for (const auto& [stage, ranks] : std::vector<std::pair<int, int>>{{0, 2}, {1, 4}, {2, 3}, {2, 5}, {3, 2}}) {
    FleetSetup setup = InSampleOrder(stage, ranks);
    setup.leaves_of = leaves_of;
    ExpectSameBits(TrainFleet(setup), want, absl::StrCat("stage ", stage, ", ", ranks, " ranks"));
  }
}

TEST(SampleOrder, ASkippedStepIsSkippedByAnyNumberOfRanks) {
  const auto run = [](int stage, int ranks) {
    FleetSetup setup = InSampleOrder(stage, ranks);
    setup.dtype = device::DType::kF16;
    setup.tokens = [](int64_t step) { return step == 1 ? int64_t{1} : int64_t{120}; };  // the first step overflows
    return TrainFleet(setup);
  };
  const FleetResult want = run(2, 1);
  EXPECT_FALSE(std::isfinite(want.grad_norms[0]));
  EXPECT_TRUE(std::isfinite(want.grad_norms[1]));
  ExpectSameBits(run(0, 4), want, "stage 0");
  ExpectSameBits(run(3, 5), want, "stage 3");
}

// What changes no bit in the order of ranks changes none here.
TEST(SampleOrder, OffloadAndCheckpointingChangeNoBit) {
  const FleetResult want = TrainFleet(InSampleOrder(2, 1));
  const auto expect = [&](const char* what, int stage, int ranks, const std::function<void(FleetSetup&)>& change) {
    FleetSetup setup = InSampleOrder(stage, ranks);
    change(setup);
    ExpectSameBits(TrainFleet(setup), want, what);
  };
  expect("offload", 1, 4, [](FleetSetup& setup) { setup.placement = kStatesOnHost; });
  expect("fraction", 2, 3, [](FleetSetup& setup) {
    setup.placement = kStatesOnHost;
    setup.placement.fraction = 0.5;
  });
  expect("speculative", 3, 4, [](FleetSetup& setup) {
    setup.placement = kStatesOnHost;
    setup.placement.timing = StatePlacement::Timing::kSpeculative;
  });
  expect("parameters", 3, 5, [](FleetSetup& setup) {
    setup.placement = kStatesOnHost;
    setup.placement.parameters_on_host = true;
  });
  expect("selective", 2, 4, [](FleetSetup& setup) { setup.checkpointing = {.selective = true}; });
  expect("inputs on the host", 3, 4, [](FleetSetup& setup) { setup.checkpointing = {.segment = 1, .offload = true}; });
}

// The tensor degree is part of the recipe; the number of groups is not.
TEST(SampleOrder, GroupsOfPartsChangeNoBit) {
  const auto run = [](int stage, int groups) {
    FleetSetup setup = InSampleOrder(stage, groups);
    setup.tensor = 2;
    setup.model = model::TestModelConfig(2, 24, 2, 10, 54);
    setup.checkpointing = {.segment = 1, .partition = true, .offload = true};
    return TrainFleet(setup);
  };
  const FleetResult want = run(2, 1);
  ExpectSameBits(run(0, 2), want, "stage 0, 2 groups");
  ExpectSameBits(run(3, 4), want, "stage 3, 4 groups");
}

TEST(SampleOrder, TrafficIsAReductionARoundAndTheGathersOfTheStage) {
  for (const auto& [stage, gathers] : {std::pair{0, 1}, {1, 1}, {2, 1}}) {
    constexpr int kRanks = 4, kRounds = 2;
    RunFleet(InSampleOrder(stage, kRanks), [&, stage = stage, gathers = gathers](TestRank& rank) {
      ASSERT_TRUE(rank.engine().Initialize(1).ok());
      rank.Step(1);
      ASSERT_TRUE(rank.engine().Finish().ok());
      const int number = rank.communicator().rank();
      const int64_t elements = rank.layout().partition().TotalPaddedElements();
      int64_t bytes = 0;
      for (const auto& [operation, totals] : rank.communicator().totals()) bytes += totals.bytes;
      if (number == 0) {
        EXPECT_EQ(bytes,
                  ((kRounds + gathers) * elements * 4 / kRanks + static_cast<int64_t>(sizeof(device::ExactScalars))) *
                      (kRanks - 1))
            << "stage " << stage;
      }
      rank.StopAndTakeRecords();
    });
  }
}

}  // namespace
}  // namespace zerofleet::zero
