// The host updates before a step is decided (offload.speculative): the bits of a run that waits, whatever the gradients
// turn out to be.
#include "worker/zero/speculation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

constexpr double kClip = 4;

// No gradient is clipped except in every third step, whose divisor is so small that it is.
FleetSetup ClippedFleet(int stage, int world_size, device::DType dtype) {
  FleetSetup setup = OffloadFleet(stage, world_size, dtype, 30);
  setup.settings = TestOptimizer();
  setup.settings->set_grad_clip(kClip);
  setup.tokens = [](int64_t step) { return step % 3 == 0 ? int64_t{1} : int64_t{60}; };
  return setup;
}

FleetResult ExpectTheBitsOfWaiting(FleetSetup setup, const std::string& what) {
  setup.placement = kStatesOnHost;
  FleetSetup guesses = setup;
  guesses.placement.timing = StatePlacement::Timing::kSpeculative;
  FleetSetup beside = guesses;
  beside.make_device = [](int) { return std::make_unique<AwayDevice>(); };
  beside.steps_ahead = 1;
  ExpectTheSameRun(setup, beside, absl::StrCat(what, ", beside the device"));
  return ExpectTheSameRun(setup, guesses, what);
}

TEST(Speculation, GivesTheBitsOfWaitingWithEveryThirdStepClipped) {
  using enum device::DType;
  for (const device::DType dtype : {kF32, kBF16}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (int world_size = 1; world_size <= 3; ++world_size) {
        const FleetResult run = ExpectTheBitsOfWaiting(
            ClippedFleet(stage, world_size, dtype),
            absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", world_size, " ranks"));
        for (size_t i = 0; i < run.grad_norms.size(); ++i) {
          EXPECT_EQ(run.grad_norms[i] > kClip, (i + 1) % 3 == 0) << "step " << i + 1 << ": " << run.grad_norms[i];
        }
      }
    }
  }
}

TEST(Speculation, GivesTheBitsOfWaitingWhereTheLossScaleOverflows) {
  for (int stage = 1; stage <= 3; ++stage) {
    const FleetResult run =
        ExpectTheBitsOfWaiting(ClippedFleet(stage, 2, device::DType::kF16), absl::StrCat("stage ", stage));
    const auto skipped = std::ranges::count_if(run.grad_norms, [](double norm) { return !std::isfinite(norm); });
    EXPECT_GT(skipped, 0);
    EXPECT_LT(skipped, 20);
  }
}

TEST(Speculation, GivesTheBitsOfWaitingWithOtherSettings) {
  FleetSetup setup = ClippedFleet(2, 2, device::DType::kBF16);
  setup.steps = 6;
  setup.placement.fraction = 0.4;
  ExpectTheBitsOfWaiting(setup, "a part of the states");
  setup.placement.fraction = 1;
  setup.global_sequences = 12;
  setup.micro_batches = 3;
  ExpectTheBitsOfWaiting(setup, "micro-batches");
  setup.checks = {.parameters = true, .replay = true};
  setup.check_every = 2;
  ExpectTheBitsOfWaiting(setup, "checks of the ranks");
  setup.checks = {};
  setup.optimizer = "sgd";
  setup.settings.reset();
  ExpectTheBitsOfWaiting(setup, "sgd");
}

// A unit of several tiles: its whole state is put back.
TEST(Speculation, UndoesEveryTile) {
  FleetSetup setup = FleetOfSeveralTiles(2);
  setup.settings = TestOptimizer();
  setup.settings->set_grad_clip(1e-3);  // clips every step
  ExpectTheBitsOfWaiting(setup, "several tiles");
}

// K bytes for each parameter whose states are on the host, and the control that a guess starts from; the link carries
// the same bytes as without guessing.
TEST(Speculation, KeepsACopyOfTheHostsStatesAndMovesNoMore) {
  FleetSetup setup = ClippedFleet(2, 2, device::DType::kBF16);
  setup.placement = kStatesOnHost;
  setup.steps = 3;
  const auto measure = [&](bool speculates) {
    setup.placement.timing = speculates ? StatePlacement::Timing::kSpeculative : StatePlacement::Timing::kInStep;
    std::vector<int64_t> measured;
    RunFleet(setup, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(1).ok());
      for (int64_t step = 1; step <= setup.steps; ++step) rank.Step(step);
      if (rank.layout().options().rank > 0) return;
      measured = {rank.engine().link().to_host.bytes, rank.engine().link().to_device.bytes,
                  rank.arena().figures().reserved, BytesIn(rank.host_arena(), memory::Category::kBuffers),
                  rank.layout().states_on_host()};
    });
    return measured;
  };
  std::vector<int64_t> wanted = measure(false);
  wanted[3] += 12 * wanted[4] + static_cast<int64_t>(sizeof(device::StepControl));
  EXPECT_EQ(measure(true), wanted);
}

// The guess is undone where it was wrong, and only there.
TEST(Speculation, EndsAsDecided) {
  const FleetSetup setup = ClippedFleet(2, 1, device::DType::kBF16);
  const device::StepRule rule = {.tokens = 1,
                                 .grad_clip = kClip,
                                 .loss_scaling = {},
                                 .learning_rate = 1e-2,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .epsilon = 1e-8};
  FleetSetup speculating = setup;
  speculating.placement = {.residence = StatePlacement::Residence::kHost,
                           .timing = StatePlacement::Timing::kSpeculative};
  RunFleet(speculating, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    memory::MemoryPlan plan{Speculation::Rows(rank.layout())};
    const auto arena = *memory::Arena::Create(plan, memory::Space::kHost, rank.device());
    Speculation speculation(rank.layout(), rank.device(), *arena);
    TrainingState& state = rank.engine().state();
    const int64_t elements = rank.layout().optimizer_elements();
    for (const double norm : {kClip / 2, kClip * 2, std::nan("")}) {
      const std::vector<float> before = rank.Read(state.master(), elements);
      device::StepControl control;
      control.loss_scale = 8;
      speculation.Begin(control, rule);
      ZF_CHECK(speculation.Keep(rank.stream(), state, 0, elements).ok());
      const std::vector<float> after(elements, 7.0f);
      rank.Write(state.master(), after);
      device::DecideStep({.loss_sum = 1, .squared_norm = 64 * norm * norm}, rule, control);
      const bool holds = norm < kClip;
      EXPECT_EQ(speculation.End(rank.stream(), control, state).value(), holds);
      EXPECT_EQ(rank.Read(state.master(), elements), holds ? after : before);
      rank.Write(state.master(), before);
    }
    EXPECT_EQ(speculation.guesses(), 3);
    EXPECT_EQ(speculation.undone(), 2);
  });
}

}  // namespace
}  // namespace zerofleet::zero
