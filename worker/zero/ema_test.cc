// The average of the weights: it follows the formula of torch.optim.swa_utils, has the same bits wherever the states
// are and its own category of memory, and evaluating it leaves nothing behind.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

constexpr double kEmaDecay = 0.75;

FleetSetup AveragingFleet(int stage = 2, int world_size = 2) {
  FleetSetup setup;
  setup.stage = stage;
  setup.world_size = world_size;
  setup.ema_decay = kEmaDecay;
  return setup;
}

// As get_ema_multi_avg_fn: the first update copies the weights, later ones move a share of the way to them.
void ExpectTheFormula(FleetSetup setup) {
  std::vector<double> expected;
  for (setup.steps = 0; setup.steps <= 4; ++setup.steps) {
    const FleetResult result = TrainFleet(setup);
    const std::vector<float>&weights = result.states.front(), &average = result.states.back();
    if (setup.steps <= setup.ema_start) {
      EXPECT_EQ(average, weights) << setup.steps;
      expected.assign(weights.begin(), weights.end());
      continue;
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      expected[i] = setup.ema_decay * expected[i] + (1 - setup.ema_decay) * weights[i];
      ASSERT_NEAR(average[i], expected[i], 1e-7 + 1e-6 * std::abs(expected[i])) << setup.steps << " " << i;
    }
  }
}

TEST(Ema, GoesAShareOfTheWayToEachStepsWeights) {
  for (const double decay : {0.25, 0.75, 1.0}) {
    for (const int64_t start : {0, 1, 2}) {
      FleetSetup setup = AveragingFleet();
      setup.ema_decay = decay;
      setup.ema_start = start;
      ExpectTheFormula(setup);
    }
  }
}

TEST(Ema, FollowsTheMatricesOfMuonToo) {
  FleetSetup setup = AveragingFleet();
  setup.optimizer = "muon";
  ExpectTheFormula(setup);
}

TEST(Ema, ChangesNothingElse) {
  FleetSetup setup = AveragingFleet();
  FleetResult with = TrainFleet(setup);
  setup.ema_decay = 0;
  const FleetResult without = TrainFleet(setup);
  EXPECT_EQ(with.losses, without.losses);
  with.states.pop_back();
  EXPECT_EQ(with.states, without.states);
}

TEST(Ema, HasTheSameBitsInEveryStageAndWithOffload) {
  for (const std::string optimizer : {"adamw", "sgd", "muon"}) {
    FleetSetup setup = AveragingFleet(0);
    setup.dtype = device::DType::kBF16;
    setup.optimizer = optimizer;
    const FleetResult plain = TrainFleet(setup);
    EXPECT_NE(plain.states.back(), plain.states.front());
    for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
      EXPECT_EQ(TrainFleet(setup).states, plain.states) << optimizer << setup.stage;
      FleetSetup offloaded = setup;
      for (const double fraction : {1.0, 0.5}) {
        offloaded.placement = {.residence = StatePlacement::Residence::kHost, .fraction = fraction};
        EXPECT_EQ(TrainFleet(offloaded).states, plain.states) << optimizer << setup.stage << fraction;
        offloaded.states_dir = testing::TempDir();
        EXPECT_EQ(TrainFleet(offloaded).states, plain.states) << "file " << optimizer << setup.stage << fraction;
        offloaded.states_dir.clear();
      }
      if (setup.stage == 1) continue;
      offloaded.placement = {.residence = StatePlacement::Residence::kHost,
                             .timing = StatePlacement::Timing::kSpeculative};
      EXPECT_EQ(TrainFleet(offloaded).states, plain.states) << "speculative " << optimizer << setup.stage;
    }
  }
}

TEST(Ema, HasTheSameBitsWithAnyNumberOfRanks) {
  FleetSetup setup = AveragingFleet(2, 1);
  setup.leaves = 6;
  setup.freeze = {"h.1.*", "transformer.h.*.ln_2.bias"};
  const FleetResult alone = TrainFleet(setup);
  for (setup.world_size = 2; setup.world_size <= 4; ++setup.world_size) {
    setup.stage = setup.world_size - 1;
    EXPECT_EQ(TrainFleet(setup).states, alone.states) << setup.world_size;
  }
}

TEST(Ema, OfADelayedUpdateComesWithIt) {
  FleetSetup setup = AveragingFleet();
  setup.placement.residence = StatePlacement::Residence::kHost;
  setup.delay_after = 2;
  setup.flushes = true;
  for (const bool looks_ahead : {false, true}) {
    setup.looks_ahead = looks_ahead;
    const FleetResult delayed = TrainFleet(setup);
    EXPECT_NE(delayed.states.back(), delayed.states.front());
    const std::string what = absl::StrCat(looks_ahead);
    setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
    EXPECT_EQ(TrainFleet(setup).states, delayed.states) << what;
    setup.make_device = nullptr;
  }
}

TEST(Ema, StaysWhereItWasInASkippedStep) {
  FleetSetup setup = AveragingFleet();
  setup.dtype = device::DType::kF16;
  setup.steps = 3;
  const FleetResult before = TrainFleet(setup);
  setup.steps = 4;
  setup.tokens = [](int64_t step) { return step == 4 ? int64_t{1} : int64_t{120}; };  // the last step overflows
  const FleetResult skipped = TrainFleet(setup);
  ASSERT_FALSE(std::isfinite(skipped.grad_norms.back()));
  EXPECT_EQ(skipped.states, before.states);
}

TEST(Ema, TakesFourBytesAParameterOfTheHost) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const double fraction : {0.0, 0.5, 1.0}) {
      FleetSetup setup = AveragingFleet(stage);
      if (fraction > 0 && stage == 0) continue;
      if (fraction > 0) setup.placement = {.residence = StatePlacement::Residence::kHost, .fraction = fraction};
      RunFleet(setup, [&](TestRank& rank) {
        const int64_t elements = rank.layout().optimizer_elements();
        EXPECT_EQ(BytesIn(rank.host_arena(), memory::Category::kAverages), 4 * elements);
        EXPECT_EQ(BytesIn(rank.arena(), memory::Category::kAverages), 0);
        EXPECT_EQ(BytesIn(rank.host_arena(), memory::Category::kOptimizer) +
                      BytesIn(rank.arena(), memory::Category::kOptimizer),
                  12 * elements);
      });
    }
  }
}

// After an evaluation of the average the next step has the bits of one without an evaluation.
TEST(Ema, IsPublishedAndTakenBack) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const bool offloads : {false, true}) {
      if (offloads && stage == 0) continue;
      FleetSetup setup = AveragingFleet(stage);
      setup.dtype = device::DType::kBF16;
      if (offloads) setup.placement.residence = StatePlacement::Residence::kHost;
      const FleetResult plain = TrainFleet(setup);
      RunFleet(setup, [&](TestRank& rank) {
        ASSERT_TRUE(rank.engine().Initialize(setup.seed).ok());
        const auto evaluate = [&] {
          return *rank.engine().EvaluateLossSum(1, [&](int64_t) -> absl::StatusOr<EvaluationBatch> {
            return EvaluationBatch{*rank.Batch(/*step=*/77, /*micro=*/0), true};
          });
        };
        for (int64_t step = 1; step <= setup.steps; ++step) {
          ASSERT_EQ(rank.Step(step).loss, plain.losses[static_cast<size_t>(step) - 1]) << stage << " " << step;
          const double current = evaluate();
          ASSERT_TRUE(rank.engine().PublishAverage().ok());
          const double average = evaluate();
          ASSERT_TRUE(rank.engine().PublishWeights().ok());
          EXPECT_EQ(average == current, step == 1) << step;
          EXPECT_EQ(evaluate(), current);
        }
      });
    }
  }
}

}  // namespace
}  // namespace zerofleet::zero
