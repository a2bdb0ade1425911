// Muon with its states on the host or in a file: the bits of Muon on the device, late updates by their definition, and
// only the host's memory.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/offload_testing.h"
#include "worker/zero/updater_factory.h"

namespace zerofleet::zero {
namespace {

using Residence = StatePlacement::Residence;
using Timing = StatePlacement::Timing;

FleetSetup MuonOn(int stage, int world_size, device::DType dtype = device::DType::kBF16) {
  FleetSetup setup = OffloadFleet(stage, world_size, dtype, 3);
  setup.optimizer = "muon";
  return setup;
}

// A fleet whose tiles end within matrices.
FleetSetup MuonInTiles(int stage) {
  FleetSetup setup = FleetOfSeveralTiles(stage);
  setup.optimizer = "muon";
  return setup;
}

TEST(MuonOffload, GivesTheBitsOfNoOffload) {
  using enum device::DType;
  for (const device::DType dtype : {kF32, kBF16, kF16}) {
    for (int world_size = 1; world_size <= 3; ++world_size) {
      for (int stage = 1; stage <= 3; ++stage) {
        const FleetSetup plain = MuonOn(stage, world_size, dtype);
        FleetSetup setup = plain;
        setup.placement = kStatesOnHost;
        if (stage == 2) setup.placement.fraction = 0.4;
        if (stage == 3) setup.states_dir = testing::TempDir();
        ExpectTheSameRun(plain, setup,
                         absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", world_size, " ranks"));
      }
    }
  }
}

// No step is clipped, so that every guess holds.
TEST(MuonOffload, GivesTheSameBitsWithEveryFraction) {
  FleetSetup plain = MuonOn(2, 2);
  plain.settings = TestOptimizer("muon");
  plain.settings->set_grad_clip(0);
  const FleetResult wanted = TrainFleet(plain);
  for (const double fraction : {0.0, 0.001, 0.3, 0.5, 0.7, 0.999}) {
    FleetSetup setup = plain;
    for (const Timing timing : {Timing::kInStep, Timing::kSpeculative}) {
      setup.placement = {.residence = Residence::kHost, .fraction = fraction, .timing = timing};
      EXPECT_EQ(TrainFleet(setup).states, wanted.states) << fraction << " " << static_cast<int>(timing);
    }
    setup.states_dir = testing::TempDir();
    setup.placement.timing = Timing::kInStep;
    EXPECT_EQ(TrainFleet(setup).states, wanted.states) << fraction << " in a file";
  }
}

TEST(MuonOffload, GivesTheSameBitsTileByTile) {
  const FleetResult wanted = TrainFleet(MuonInTiles(3));
  for (const bool away : {false, true}) {
    FleetSetup setup = MuonInTiles(3);
    if (away) setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
    setup.placement = kStatesOnHost;
    EXPECT_EQ(TrainFleet(setup).states, wanted.states) << away;
    setup.states_dir = testing::TempDir();
    EXPECT_EQ(TrainFleet(setup).states, wanted.states) << "in a file " << away;
    setup.placement.parameters_on_host = true;
    EXPECT_EQ(TrainFleet(setup).states, wanted.states) << "parameters " << away;
  }
}

TEST(MuonOffload, GivesTheSameBitsWithMicroBatchesAndWhereTheUpdateRunsBesideTheSteps) {
  for (int stage = 1; stage <= 3; ++stage) {
    FleetSetup setup = MuonOn(stage, 2);
    setup.micro_batches = 3;
    setup.ema_decay = 0.75;
    const FleetResult wanted = TrainFleet(setup);
    setup.placement = kStatesOnHost;
    EXPECT_EQ(TrainFleet(setup).states, wanted.states) << stage;
    setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
    setup.steps_ahead = 1;
    EXPECT_EQ(TrainFleet(setup).states, wanted.states) << stage << " away";
  }
}

// Every third step is clipped, so that its guess is undone, momentum included.
TEST(MuonOffload, GuessesAndPutsBack) {
  for (int stage = 1; stage <= 3; ++stage) {
    FleetSetup setup = MuonOn(stage, 2);
    setup.steps = 6;
    setup.settings = TestOptimizer("muon");
    setup.settings->set_grad_clip(4);
    setup.tokens = [](int64_t step) { return step % 3 == 0 ? int64_t{1} : int64_t{60}; };
    FleetSetup guesses = setup;
    guesses.placement = {.residence = Residence::kHost, .timing = Timing::kSpeculative};
    const FleetResult run = ExpectTheSameRun(setup, guesses, absl::StrCat("stage ", stage));
    for (size_t i = 0; i < run.grad_norms.size(); ++i) EXPECT_EQ(run.grad_norms[i] > 4, (i + 1) % 3 == 0) << i;
  }
}

// Step 2 computes with the weights of step 1 and updates nothing; step 3 applies its gradient, at its learning rate.
TEST(MuonOffload, ALateUpdateIsThatOfTheStepBefore) {
  FleetSetup setup = MuonOn(2, 2, device::DType::kF32);
  setup.placement = kStatesOnHost;
  setup.learning_rate_of = [](int64_t step) { return 1e-2 / static_cast<double>(step); };
  const auto after = [&](int64_t steps, int64_t delay_after) {
    setup.steps = steps;
    setup.delay_after = delay_after;
    return TrainFleet(setup).states;
  };
  EXPECT_EQ(after(2, 1), after(1, 0));
  EXPECT_EQ(after(3, 1), after(2, 0));
  EXPECT_NE(after(4, 1), after(3, 0));
}

TEST(MuonOffload, LateUpdatesHaveTheSameBitsEverywhere) {
  for (const bool looks_ahead : {false, true}) {
    FleetSetup setup = MuonOn(1, 2);
    setup.steps = 6;
    setup.delay_after = 2;
    setup.looks_ahead = looks_ahead;
    setup.placement = kStatesOnHost;
    const FleetResult wanted = TrainFleet(setup);
    for (setup.stage = 2; setup.stage <= 3; ++setup.stage) {
      setup.make_device = nullptr;
      EXPECT_EQ(TrainFleet(setup).states, wanted.states) << setup.stage << looks_ahead;
      setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
      EXPECT_EQ(TrainFleet(setup).states, wanted.states) << setup.stage << looks_ahead << " away";
      setup.states_dir = testing::TempDir();
      EXPECT_EQ(TrainFleet(setup).states, wanted.states) << setup.stage << looks_ahead << " in a file";
      setup.states_dir.clear();
    }
  }
}

// With momentum 0 one more step with the same gradient has this step's direction: the next step computes with the
// weights moved once more by what they have just moved. Everything but the matrices is frozen.
TEST(MuonOffload, LooksAheadAlongTheNextDirection) {
  FleetSetup setup = MuonOn(3, 1, device::DType::kF32);
  setup.freeze = {"wte.weight", "wpe.weight", "ln_f.*", "h.*.ln_*", "h.*.bias"};
  setup.settings = TestOptimizer("muon");
  setup.settings->set_momentum(0);
  setup.settings->set_weight_decay(0);
  FleetSetup ahead = setup;
  ahead.placement = kStatesOnHost;
  ahead.delay_after = 1;
  ahead.looks_ahead = true;
  std::vector<float> before, now;
  double loss = 0;
  RunFleet(ahead, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    const auto weights = [&] { return rank.Read(rank.engine().state().master(), rank.layout().optimizer_elements()); };
    for (const int64_t step : {1, 2}) rank.Step(step);
    before = weights();
    rank.Step(3);
    now = weights();
    loss = rank.Step(4).loss;
  });
  const auto loss_with = [&](double steps) {
    std::vector<float> weights = now;
    for (size_t i = 0; i < now.size(); ++i) weights[i] += static_cast<float>(steps * (double{now[i]} - before[i]));
    double computed = 0;
    RunFleet(setup, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(1).ok());
      rank.Write(rank.engine().state().master(), weights);
      ZF_CHECK(rank.engine().PublishLoadedState({}).ok());
      computed = rank.Step(4).loss;
    });
    return computed;
  };
  EXPECT_NEAR(loss, loss_with(1), 1e-6 * loss);
  EXPECT_GT(std::abs(loss - loss_with(0)), 1e-4 * loss);
}

TEST(MuonOffload, TakesHostMemoryAndNoneOfTheDevices) {
  for (const bool offloads : {false, true}) {
    FleetSetup setup = MuonOn(2, 2);
    if (offloads) setup.placement = kStatesOnHost;
    const model::ModelSpec spec = SpecOf(setup, 0);
    RunFleet(setup, [&](TestRank& rank) {
      const ZeroLayout::WholeMatrices& matrices = rank.layout().whole_matrices();
      const int64_t bytes = 2 * matrices.largest_unit + 2 * 4 * matrices.largest + 2 * 4 * matrices.largest_gram + 8;
      int64_t device = 0, host = 0;
      for (const memory::MemoryRow& row : UpdaterRows(rank.layout())) {
        if (!std::string(row.name).starts_with("muon ")) continue;
        (row.space == memory::Space::kHost ? host : device) += row.bytes;
      }
      EXPECT_EQ(device, offloads ? 0 : bytes);
      EXPECT_EQ(host, offloads ? bytes : 0);
    });
  }
}

}  // namespace
}  // namespace zerofleet::zero
