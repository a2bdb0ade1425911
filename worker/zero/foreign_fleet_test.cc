// A foreign model in the engine: the same bits in every stage and, in the order of samples, at any world size; the
// passes report what the loss is divided by.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/foreign_testing.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

FleetSetup Foreign(int stage, int world_size) {
  FleetSetup setup;
  setup.model = model::ForeignConfig();
  setup.stage = stage;
  setup.world_size = world_size;
  setup.steps = 3;
  setup.make_passes = [](int) { return std::make_unique<model::LinearPasses>(); };
  return setup;
}

void ExpectEqual(const FleetResult& got, const FleetResult& want, const std::string& what) {
  EXPECT_EQ(got.losses, want.losses) << what;
  EXPECT_EQ(got.grad_norms, want.grad_norms) << what;
  EXPECT_TRUE(got.states == want.states) << what;
}

TEST(ForeignFleet, StagesChangeNoBit) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (const int ranks : {1, 2, 3}) {
      FleetSetup first = Foreign(0, ranks);
      first.dtype = dtype;
      const FleetResult want = TrainFleet(first);
      EXPECT_LT(want.losses.back(), want.losses.front());
      for (const int stage : {1, 2, 3}) {
        FleetSetup setup = Foreign(stage, ranks);
        setup.dtype = dtype;
        ExpectEqual(TrainFleet(setup), want,
                    absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", ranks, " ranks"));
      }
    }
  }
}

// The passes wait for the stream before they read what a gather has brought and add to what the engine has cleared, and
// the engine waits for nothing.
TEST(ForeignFleet, OnAGpuStagesChangeNoBit) {
  for (const std::string& device : UsableDevices()) {
    if (device == "cpu") continue;
    const auto train = [&](int stage, StatePlacement::Residence residence) {
      FleetSetup setup = Foreign(stage, 2);
      setup.device = device;
      setup.dtype = device::DType::kBF16;
      setup.placement.residence = residence;
      return TrainFleet(setup);
    };
    const FleetResult want = train(0, StatePlacement::Residence::kDevice);
    EXPECT_LT(want.losses.back(), want.losses.front());
    for (const int stage : {1, 2, 3}) {
      ExpectEqual(train(stage, StatePlacement::Residence::kDevice), want, absl::StrCat("stage ", stage));
    }
    FleetSetup on_cpu = Foreign(0, 2);
    on_cpu.dtype = device::DType::kBF16;
    EXPECT_EQ(want.losses, TrainFleet(on_cpu).losses) << "the losses of the CPU";
  }
}

TEST(ForeignFleet, InTheOrderOfSamplesRanksChangeNoBit) {
  const auto train = [](int stage, int ranks) {
    FleetSetup setup = Foreign(stage, ranks);
    setup.leaves = 6;
    return TrainFleet(setup);
  };
  const FleetResult want = train(2, 1);
  for (const auto& [stage, ranks] : std::vector<std::pair<int, int>>{{0, 2}, {1, 4}, {2, 3}, {3, 1}, {3, 4}}) {
    ExpectEqual(train(stage, ranks), want, absl::StrCat("stage ", stage, ", ", ranks, " ranks"));
  }
}

// The frozen unit's parameters are 0 from Initialize on, and stay so.
TEST(ForeignFleet, AFrozenUnitHasParametersAlone) {
  const auto train = [](int stage, int ranks, const std::function<void(TestRank&)>& look = nullptr) {
    FleetSetup setup = Foreign(stage, ranks);
    setup.model = model::FrozenForeignConfig();
    setup.make_passes = [](int) {
      auto passes = std::make_unique<model::LinearPasses>();
      passes->frozen = 1;
      return passes;
    };
    if (look) RunFleet(setup, look);
    return TrainFleet(setup);
  };
  const FleetResult want = train(0, 2, [](TestRank& rank) {
    EXPECT_EQ(rank.layout().optimizer_elements(), 2 * 64);  // 5 and 7, each padded for two ranks
    EXPECT_EQ(rank.layout().parameter_elements(), 3 * 64);
  });
  EXPECT_LT(want.losses.back(), want.losses.front());
  for (const int stage : {1, 2, 3}) ExpectEqual(train(stage, 2), want, absl::StrCat("stage ", stage));
  EXPECT_NE(want.losses, TrainFleet(Foreign(0, 2)).losses);
}

FleetSetup Buffered(int stage, int world_size) {
  FleetSetup setup = Foreign(stage, world_size);
  setup.model = model::BufferedForeignConfig();
  setup.make_passes = [](int) { return std::make_unique<model::BufferedPasses>(); };
  return setup;
}

// The buffers in a vector of the model's elements, in which they are the last.
model::TestBuffers BuffersIn(const std::vector<float>& vector) {
  return model::TestBuffers::Of(
      [&](int64_t i) { return vector[vector.size() - model::TestBuffers::kBytes + static_cast<size_t>(i)]; });
}

// The first sample of step t is sample t.
model::TestBuffers BuffersAfter(int64_t steps) {
  model::TestBuffers buffers;
  for (int64_t step = 1; step <= steps; ++step) buffers.See(step);
  return buffers;
}

TEST(ForeignFleet, TheFirstMicroBatchMakesTheNextStepsBuffers) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (const int ranks : {1, 2, 3}) {
      for (const int64_t micro_batches : {1, 2}) {
        for (const int stage : {0, 1, 2, 3}) {
          const auto train = [&](FleetSetup setup) {
            setup.dtype = dtype;
            setup.micro_batches = micro_batches;
            return TrainFleet(setup);
          };
          const FleetResult got = train(Buffered(stage, ranks)), plain = train(Foreign(stage, ranks));
          const std::string what = absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", ranks, " ranks");
          EXPECT_EQ(BuffersIn(got.master()), BuffersAfter(3)) << what;
          EXPECT_EQ(got.losses, plain.losses) << what;
          EXPECT_EQ(got.grad_norms, plain.grad_norms) << what << ": the norm has bytes in it";
        }
      }
    }
  }
}

TEST(ForeignFleet, BuffersAreTheSameInTheOrderOfSamplesAndWithStatesOnTheHost) {
  FleetSetup dealt = Buffered(3, 4);
  dealt.leaves = 6;
  EXPECT_EQ(BuffersIn(TrainFleet(dealt).master()), BuffersAfter(dealt.steps));
  for (const double fraction : {1.0, 0.9, 0.5}) {
    FleetSetup offloaded = Buffered(2, 2);
    offloaded.placement = {.residence = StatePlacement::Residence::kHost, .fraction = fraction};
    offloaded.ema_decay = fraction < 1 ? 0 : 0.9;
    const FleetResult got = TrainFleet(offloaded);
    EXPECT_EQ(BuffersIn(got.master()), BuffersAfter(offloaded.steps)) << fraction;
    if (fraction < 1) continue;
    EXPECT_EQ(BuffersIn(got.states.back()), BuffersAfter(offloaded.steps)) << "the average";
  }
}

TEST(ForeignFleet, OnAGpuBuffersAreTheSame) {
  for (const std::string& device : UsableDevices()) {
    if (device == "cpu") continue;
    for (const int stage : {0, 3}) {
      FleetSetup setup = Buffered(stage, 2);
      setup.device = device;
      setup.dtype = device::DType::kBF16;
      EXPECT_EQ(BuffersIn(TrainFleet(setup).master()), BuffersAfter(setup.steps)) << device << ", stage " << stage;
    }
  }
}

// A warm-up step and a step that is undone change no buffer.
TEST(ForeignFleet, AStepWithoutAnUpdateLeavesBuffersAlone) {
  const FleetSetup setup = Buffered(3, 2);
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    ZF_CHECK(rank.Step(1).step == 1);
    ZF_CHECK(rank.engine()
                 .WarmUp(
                     {.step = 2, .learning_rate = 1e-2, .tokens = 0},
                     [&](int number, int64_t micro) { return rank.BatchOf(number, 7, micro); }, 0, nullptr)
                 .ok());
    ZF_CHECK(rank.Launch(2).ok());
    ZF_CHECK(rank.engine().Collect().ok());
    const coordinator::PlacedRange owned = rank.layout().Owned(model::TestBuffers::kUnit);
    model::TestBuffers want = BuffersAfter(2);
    std::vector<float> bytes(model::TestBuffers::kBytes);
    want.AddTo(bytes.data());
    const int64_t first = rank.layout().partition().unit(model::TestBuffers::kUnit).flat_begin;
    const std::vector<float> mine =
        rank.Read(rank.engine().state().master() + rank.layout().Updated(model::TestBuffers::kUnit).state_offset,
                  owned.elements());
    for (int64_t i = 0; i < owned.elements(); ++i) {
      EXPECT_EQ(mine[static_cast<size_t>(i)], bytes[static_cast<size_t>(owned.flat_begin - first + i)]) << i;
    }
  });
}

TEST(ForeignFleet, StatesOnTheHostChangeNoBit) {
  FleetSetup setup = Foreign(3, 2);
  setup.placement.residence = StatePlacement::Residence::kHost;
  ExpectEqual(TrainFleet(setup), TrainFleet(Foreign(0, 2)), "offload");
}

TEST(ForeignFleet, LossesMayBeReportedByTheirAddress) {
  FleetSetup setup = Foreign(3, 2);
  setup.make_passes = [](int) {
    auto passes = std::make_unique<model::LinearPasses>();
    passes->stays = true;
    return passes;
  };
  ExpectEqual(TrainFleet(setup), TrainFleet(Foreign(3, 2)), "losses in device memory");
}

// The first step has samples 1 to 12, whose weights are 3 to 14, and parameters that are 0.
TEST(ForeignFleet, LossAndGradientAreDividedByTheWeights) {
  FleetSetup setup = Foreign(2, 2);
  setup.steps = 1;
  const FleetResult got = TrainFleet(setup);
  double weight = 0, factor = 0, squares = 0;
  for (int sample = 1; sample <= 12; ++sample) {
    weight += sample + 2;
    factor += sample + 1;
  }
  for (int unit = 0; unit < 3; ++unit) {
    for (int64_t i = 0; i < model::LinearPasses::kElements[unit]; ++i) {
      squares += std::pow(double{model::LinearPasses::Goal(unit, i)}, 2);
    }
  }
  EXPECT_NEAR(got.losses[0], factor * squares / 2 / weight, 1e-6);
  EXPECT_NEAR(got.grad_norms[0], factor * std::sqrt(squares) / weight, 1e-6);
}

// One rank's pass leaves a unit out; the other ranks do not wait for it.
TEST(ForeignFleet, APassMayLeaveAUnitOut) {
  for (const int stage : {0, 3}) {
    FleetSetup setup = Foreign(stage, 2);
    setup.make_passes = [](int rank) {
      auto passes = std::make_unique<model::LinearPasses>();
      if (rank == 1) passes->left_out = 1;
      return passes;
    };
    const FleetResult got = TrainFleet(setup);
    EXPECT_EQ(got.losses.size(), 3u);
    EXPECT_NE(got.losses, TrainFleet(Foreign(stage, 2)).losses);
  }
}

TEST(ForeignFleet, AnEvaluationIsDividedByItsOwnWeights) {
  FleetSetup setup = Foreign(3, 2);
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    const std::vector<int64_t> samples = {int64_t{4} + rank.layout().options().rank};
    double weight = 0;
    const absl::StatusOr<double> sum = rank.engine().EvaluateLossSum(
        2,
        [&](int64_t pass) {
          model::MicroBatch batch{1, 1, nullptr, nullptr};
          batch.samples = samples;
          return EvaluationBatch{batch, /*counts=*/pass == 0};
        },
        &weight);
    ASSERT_TRUE(sum.ok());
    EXPECT_EQ(weight, (4 + 2) + (5 + 2));
    EXPECT_GT(*sum, 0);
  });
}

// A head's slot is free while blocks are used; two blocks in use at once need two slots.
TEST(PlanSlots, UnitsInUseAtDifferentTimesShareASlot) {
  const model::PassScript script = {
      model::EventsOf("a0 r0 a1 r1 a2 r2 a3 g3 d3 r3 a2 g2 d2 r2 a1 g1 d1 r1 a0 g0 d0 r0"),
      model::EventsOf("a0 r0 a1 r1 a2 r2 a3 r3")};
  const SlotPlan parameters = PlanSlots(script, SlotUse::kParameters, {100, 10, 20, 20});
  EXPECT_THAT(parameters.slot_of_unit, testing::ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(parameters.unit_of_slot, testing::ElementsAre(0, 3));
  const SlotPlan gradients = PlanSlots(script, SlotUse::kGradients, {100, 10, 20, 20});
  EXPECT_THAT(gradients.slot_of_unit, testing::ElementsAre(0, 1, 0, 1));
}

TEST(PlanSlots, AUnitInUseThroughoutHasItsOwn) {
  const model::PassScript script = {model::EventsOf("a0 a1 r1 a2 r2 a2 g2 d2 r2 a1 g1 d1 r1 g0 d0 r0"),
                                    model::EventsOf("a0 a1 r1 a2 r2 r0")};
  EXPECT_THAT(PlanSlots(script, SlotUse::kParameters, {5, 12, 7}).slot_of_unit, testing::ElementsAre(2, 0, 1));
}

}  // namespace
}  // namespace zerofleet::zero
