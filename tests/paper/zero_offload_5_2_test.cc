// ZeRO-Offload (Ren et al. 2021) §5.2, the delayed parameter update: after K steps, step N = K + 1 fetches its gradient
// and updates nothing; each later step computes with the parameters that it finds and then applies the gradient of the
// step before. A simulation of these equations gives the same weights, to the bit, after every step.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

constexpr int64_t kAfter = 3, kSteps = 12;
constexpr double kLearningRate = 1e-2;  // TestRank's
constexpr double kMomentum = 0.9;

// SGD without weight decay: from a momentum of zero, a step leaves its clipped gradient there.
FleetSetup Sgd(bool delayed, bool looks_ahead = false) {
  v1::OptimizerConfig settings = TestOptimizer("sgd");
  settings.set_weight_decay(0);
  settings.set_momentum(kMomentum);
  return {.model = model::TestModelConfig(2, 24, 3, 10, 53),
          .stage = 2,
          .global_sequences = 6,
          .steps = kSteps,
          .optimizer = "sgd",
          .placement = delayed ? kStatesOnHost : StatePlacement{},
          .delay_after = delayed ? kAfter : 0,
          .looks_ahead = looks_ahead,
          .settings = settings};
}

using Weights = std::vector<std::vector<float>>;  // weights after each step

// The paper's schedule, simulated on top of a fleet of one rank that knows nothing of it: the fleet computes the
// gradient at given weights, while the momentum and the weights are the simulation's own. Flushed after step `flush`.
// With `looks_ahead` a late update leaves the fleet the weights that one more step with the same gradient would give.
Weights Simulate(int64_t flush, bool looks_ahead) {
  Weights after;
  RunFleet(Sgd(false), [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(5).ok());
    const int64_t elements = rank.layout().optimizer_elements();
    const optim::StateTensors& states = rank.engine().state().vectors();
    std::vector<float> weights = rank.Read(states[0].data, elements), momentum(elements), held, found = weights;
    const auto apply = [&](std::vector<float>& gradient, bool ahead) {
      const device::StepRule rule = {.tokens = 1,
                                     .grad_clip = 0,
                                     .loss_scaling = {},
                                     .learning_rate = kLearningRate,
                                     .momentum = kMomentum,
                                     .looks_ahead = ahead};
      const device::StepControl control = {.updates = 1, .apply = 1, .factors = device::FactorsOf(rule, 1.0, 1)};
      const device::DecaySegment all[] = {{0, elements, false}};
      rank.device().ops().Sgd(rank.stream(), {.segments = all,
                                              .control = &control,
                                              .gradient = {gradient.data(), device::DType::kF32},
                                              .master = weights.data(),
                                              .momentum = momentum.data(),
                                              .parameter = {found.data(), device::DType::kF32}});
    };
    for (int64_t step = 1; step <= kSteps; ++step) {
      rank.Write(states[0].data, found);
      rank.Write(states[1].data, std::vector<float>(elements));
      ZF_CHECK(rank.engine().PublishLoadedState({}).ok());
      rank.Step(step);
      std::vector<float> gradient = rank.Read(states[1].data, elements);
      if (step <= kAfter) {
        apply(gradient, false);
      } else {
        if (!held.empty()) apply(held, looks_ahead);
        held = gradient;
      }
      if (step == flush) {
        apply(held, false);
        held.clear();
      }
      after.push_back(weights);
    }
  });
  return after;
}

Weights Train(const FleetSetup& setup, int64_t flush) {
  Weights after;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(5).ok());
    for (int64_t step = 1; step <= kSteps; ++step) {
      rank.Step(step);
      if (step == flush) ZF_CHECK(rank.engine().Flush().ok());
      after.push_back(rank.Read(rank.engine().state().master(), rank.layout().optimizer_elements()));
    }
  });
  return after;
}

TEST(DelayedUpdateSection52, FollowsTheEquationsAfterEveryStep) {
  for (const bool looks_ahead : {false, true}) {
    for (const int64_t flush : {int64_t{0}, int64_t{7}, kSteps}) {
      const Weights wanted = Simulate(flush, looks_ahead), got = Train(Sgd(true, looks_ahead), flush);
      ASSERT_EQ(got.size(), wanted.size());
      for (int64_t step = 1; step <= kSteps; ++step) {
        EXPECT_EQ(got[step - 1], wanted[step - 1])
            << "step " << step << ", flushed after " << flush << (looks_ahead ? ", looking ahead" : "");
      }
      EXPECT_EQ(got[kAfter], got[kAfter - 1]) << "step N updates nothing";
      EXPECT_NE(got[kAfter + 1], got[kAfter]);
    }
  }
}

// A fleet that looks ahead flushes the weights themselves, even if the step that it holds has overflowed: the next
// step's loss is the same if they are published once more.
TEST(DelayedUpdateSection52, AFlushPublishesTheWeightsThemselves) {
  constexpr int64_t kHeld = kAfter + 3;
  const auto next_loss = [](bool overflows, bool flushes, bool publishes) {
    FleetSetup setup = Sgd(true, /*looks_ahead=*/true);
    setup.dtype = device::DType::kF16;
    // Gradients are divided by the number of tokens, so that this step's have no finite norm.
    setup.tokens = [overflows](int64_t step) { return overflows && step == kHeld ? int64_t{0} : int64_t{60}; };
    double loss = 0;
    RunFleet(setup, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(5).ok());
      for (int64_t step = 1; step <= kHeld; ++step) rank.Step(step);
      if (flushes) ZF_CHECK(rank.engine().Flush().ok());
      if (publishes) ZF_CHECK(rank.engine().PublishLoadedState({}).ok());
      loss = rank.Step(kHeld + 1).loss;
    });
    return loss;
  };
  for (const bool overflows : {false, true}) {
    EXPECT_EQ(next_loss(overflows, true, false), next_loss(overflows, true, true)) << overflows;
    EXPECT_NE(next_loss(overflows, false, false), next_loss(overflows, true, false)) << overflows;
  }
}

FleetSetup Any(int stage, int world_size, device::DType dtype) {
  return {.model = model::TestModelConfig(2, 24, 3, 10, 53),
          .stage = stage,
          .world_size = world_size,
          .dtype = dtype,
          .global_sequences = 6,
          .steps = kSteps,
          .placement = kStatesOnHost,
          .delay_after = kAfter};
}

TEST(DelayedUpdateSection52, EveryStageGivesTheSameBits) {
  for (const device::DType dtype : {device::DType::kBF16, device::DType::kF16}) {
    const FleetResult one = TrainFleet(Any(1, 2, dtype));
    for (const int stage : {2, 3}) {
      const FleetResult other = TrainFleet(Any(stage, 2, dtype));
      EXPECT_THAT(other.losses, ElementsAreArray(one.losses)) << "stage " << stage;
      EXPECT_EQ(other.states, one.states) << "stage " << stage;
    }
  }
}

// Steps N and N + 1 compute with the same parameters; the losses differ from those of undelayed updates only later.
TEST(DelayedUpdateSection52, TheFirstStepsAreNotDelayed) {
  FleetSetup setup = Any(2, 1, device::DType::kF32);
  const std::vector<double> delayed = TrainFleet(setup).losses;
  setup.delay_after = 0;
  const std::vector<double> plain = TrainFleet(setup).losses;
  for (int64_t step = 1; step <= kAfter + 1; ++step) EXPECT_EQ(delayed[step - 1], plain[step - 1]) << step;
  EXPECT_NE(delayed[kAfter + 1], plain[kAfter + 1]);
}

}  // namespace
}  // namespace zerofleet::zero
