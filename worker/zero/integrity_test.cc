// Whole fleets in which one rank's numbers are changed: the fault must be found in time, and the right rank named.
#include "worker/zero/integrity.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/disagreement.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The status that every rank of `setup` gets from the first step that fails, if one does.
std::vector<absl::Status> FirstFailures(const FleetSetup& setup) {
  std::vector<absl::Status> failures(setup.world_size);
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    absl::Status& failure = failures[rank.layout().options().rank];
    for (int64_t step = 1; step <= setup.steps && failure.ok(); ++step) failure = rank.TryStep(step).status();
  });
  return failures;
}

TEST(CheckParameters, NamesTheRankWhoseCopyDiffers) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    FleetSetup setup{.stage = static_cast<int>(random() % 3),
                     .world_size = 3 + static_cast<int>(random() % 2),
                     .dtype = random() % 2 == 0 ? device::DType::kF32 : device::DType::kBF16,
                     .checks = {.parameters = true}};
    setup.faulty_rank = static_cast<int>(random() % setup.world_size);
    setup.fault.pass = static_cast<int64_t>(random() % setup.steps);
    setup.fault.seed = random();
    SCOPED_TRACE(absl::StrCat("stage ", setup.stage, ", rank ", setup.faulty_rank, ", step ", setup.fault.pass + 1));
    for (const absl::Status& failure : FirstFailures(setup)) {
      const std::optional<v1::Disagreement> verdict = DisagreementOf(failure);
      ASSERT_TRUE(verdict) << failure;
      EXPECT_THAT(std::string(failure.message()), HasSubstr(absl::StrCat("at step ", setup.fault.pass + 1, ":")));
      EXPECT_FALSE(verdict->undecided());
      EXPECT_THAT(verdict->ranks(), ElementsAre(setup.faulty_rank));
    }
  }
}

TEST(CheckParameters, OfTwoRanksNoneIsBlamed) {
  for (const absl::Status& failure :
       FirstFailures({.stage = 1, .world_size = 2, .checks = {.parameters = true}, .faulty_rank = 1})) {
    const std::optional<v1::Disagreement> verdict = DisagreementOf(failure);
    ASSERT_TRUE(verdict) << failure;
    EXPECT_TRUE(verdict->undecided());
    EXPECT_THAT(verdict->ranks(), ElementsAre(0, 1));
  }
}

// From memory that the host cannot address, more than one piece of a digest is copied.
TEST(StepChecks, ReadACopyOfTheDevicesMemory) {
  for (const StepChecks& checks : {StepChecks{.parameters = true}, StepChecks{.replay = true}}) {
    for (const int faulty : {-1, 1}) {
      FleetSetup setup = {.model = model::TestModelConfig(1, 256, 4, 8, 300),
                          .stage = 1,
                          .world_size = 3,
                          .steps = 2,
                          .checks = checks,
                          .faulty_rank = faulty};
      setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
      for (const absl::Status& failure : FirstFailures(setup)) {
        if (faulty < 0) {
          EXPECT_TRUE(failure.ok()) << failure;
          continue;
        }
        const std::optional<v1::Disagreement> verdict = DisagreementOf(failure);
        ASSERT_TRUE(verdict) << failure;
        EXPECT_THAT(verdict->ranks(), ElementsAre(faulty));
      }
    }
  }
}

// The step that finds something leaves the states as they were.
TEST(StepChecks, EndTheStepBeforeTheOptimizerRuns) {
  for (const StepChecks& checks : {StepChecks{.parameters = true}, StepChecks{.replay = true}}) {
    for (const bool guesses : {false, true}) {
      FleetSetup setup = {.stage = 2, .world_size = 3, .checks = checks, .faulty_rank = 1};
      if (guesses) {
        setup.placement = {.residence = StatePlacement::Residence::kHost,
                           .timing = StatePlacement::Timing::kSpeculative};
      }
      RunFleet(setup, [&](TestRank& rank) {
        ZF_CHECK(rank.engine().Initialize(1).ok());
        const std::vector<float> before = rank.Read(rank.engine().state().master(), rank.layout().optimizer_elements());
        ASSERT_TRUE(DisagreementOf(rank.TryStep(1).status()));
        EXPECT_EQ(rank.Read(rank.engine().state().master(), rank.layout().optimizer_elements()), before);
      });
    }
  }
}

// In stage 0 every rank updates every parameter from its own states: a fault there stays.
TEST(CheckParameters, FindsAStageZeroStateThatWentWrongAfterTheUpdate) {
  RunFleet({.stage = 0, .world_size = 3, .checks = {.parameters = true}}, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    std::vector<float> master = rank.Read(rank.engine().state().master(), rank.layout().optimizer_elements());
    if (rank.layout().options().rank == 2) master[5] += 1;
    rank.Write(rank.engine().state().master(), master);
    ASSERT_TRUE(rank.TryStep(1).ok());
    const std::optional<v1::Disagreement> verdict = DisagreementOf(rank.TryStep(2).status());
    ASSERT_TRUE(verdict);
    EXPECT_THAT(verdict->ranks(), ElementsAre(2));
  });
}

void ExpectNoBitChanges(FleetSetup setup) {
  const FleetResult checked = TrainFleet(setup);
  setup.checks = {};
  const FleetResult plain = TrainFleet(setup);
  EXPECT_EQ(checked.losses, plain.losses) << "stage " << setup.stage;
  EXPECT_EQ(checked.grad_norms, plain.grad_norms) << "stage " << setup.stage;
  EXPECT_EQ(checked.states, plain.states) << "stage " << setup.stage;
}

TEST(StepChecks, ChangeNoBit) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int64_t micro_batches : {1, 2}) {
      for (device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
        ExpectNoBitChanges({.stage = stage,
                            .world_size = 3,
                            .dtype = dtype,
                            .micro_batches = micro_batches,
                            .checks = {.parameters = true, .replay = true},
                            .check_every = 2});
      }
    }
  }
}

const char* Name(FaultyPart part) {
  return part == FaultyPart::kWeights ? "weights" : part == FaultyPart::kActivations ? "activations" : "gradient";
}

// Bytes of the first matrices that are kept for the backward pass, where their sizes leave no gaps.
int64_t ActivationBytes(const FleetSetup& setup) {
  const int64_t tokens = setup.global_sequences / (setup.world_size * setup.micro_batches) * setup.model.context();
  return tokens * (6 * setup.model.hidden() + setup.model.intermediate()) * device::DTypeBytes(setup.dtype);
}

// The step that the training pass with this number belongs to, where every `check_every`-th step has one pass more.
int64_t StepOfPass(const FleetSetup& setup, int64_t pass) {
  int64_t step = 1;
  for (int64_t end = 0;; ++step) {
    end += setup.micro_batches + (step % setup.check_every == 0 ? 1 : 0);
    if (pass < end) return step;
  }
}

FleetSetup DrawFaultyFleet(std::mt19937& random) {
  FleetSetup setup{.model = model::TestModelConfig(3, 24, 3, 8, 53),
                   .stage = static_cast<int>(random() % 4),
                   .world_size = 3 + static_cast<int>(random() % 2),
                   .dtype = random() % 2 == 0 ? device::DType::kF32 : device::DType::kBF16,
                   .micro_batches = 1 + static_cast<int64_t>(random() % 2),
                   .checks = {.replay = true},
                   .check_every = 1 + static_cast<int64_t>(random() % 4)};
  setup.global_sequences = 24;
  setup.faulty_rank = static_cast<int>(random() % setup.world_size);
  setup.fault = {.part = static_cast<FaultyPart>(random() % 3),
                 .pass = static_cast<int64_t>(random() % 8),
                 .stays = true,
                 .seed = random(),
                 .activation_bytes = ActivationBytes(setup)};
  setup.steps = StepOfPass(setup, setup.fault.pass) + setup.check_every;
  return setup;
}

// A processor goes bad at some moment: from then on it flips a bit of one rank's weights, activations or gradient.
TEST(Replays, NameTheRankThatComputesSomethingElseWithinTheirInterval) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    const FleetSetup setup = DrawFaultyFleet(random);
    SCOPED_TRACE(absl::StrCat("trial ", trial, ": ", Name(setup.fault.part), " of rank ", setup.faulty_rank, " of ",
                              setup.world_size, " from pass ", setup.fault.pass, ", stage ", setup.stage, ", every ",
                              setup.check_every, " steps"));
    for (const absl::Status& failure : FirstFailures(setup)) {
      const std::optional<v1::Disagreement> verdict = DisagreementOf(failure);
      ASSERT_TRUE(verdict) << failure;
      EXPECT_FALSE(verdict->undecided());
      EXPECT_THAT(verdict->ranks(), ElementsAre(setup.faulty_rank));
    }
  }
}

// A fault that comes once, in the pass that a rank computes for the other or in its own.
TEST(Replays, OfTwoRanksTheOneThatDisagreesWithItselfIsNamed) {
  for (FaultyPart part : {FaultyPart::kActivations, FaultyPart::kGradient}) {
    for (int64_t pass : {0, 1}) {
      for (int faulty : {0, 1}) {
        FleetSetup setup{.stage = 2, .world_size = 2, .checks = {.replay = true}, .faulty_rank = faulty};
        setup.fault = {.part = part, .pass = pass, .seed = 4711, .activation_bytes = ActivationBytes(setup)};
        SCOPED_TRACE(absl::StrCat(Name(part), " of rank ", faulty, ", pass ", pass));
        for (const absl::Status& failure : FirstFailures(setup)) {
          const std::optional<v1::Disagreement> verdict = DisagreementOf(failure);
          ASSERT_TRUE(verdict) << failure;
          EXPECT_FALSE(verdict->undecided());
          EXPECT_THAT(verdict->ranks(), ElementsAre(faulty));
        }
      }
    }
  }
}

TEST(Replays, OfTwoRanksNoneIsBlamedForAFaultThatStays) {
  FleetSetup setup{.stage = 1, .world_size = 2, .checks = {.replay = true}, .faulty_rank = 0};
  setup.fault = {.part = FaultyPart::kGradient, .stays = true};
  for (const absl::Status& failure : FirstFailures(setup)) {
    const std::optional<v1::Disagreement> verdict = DisagreementOf(failure);
    ASSERT_TRUE(verdict) << failure;
    EXPECT_TRUE(verdict->undecided());
    EXPECT_THAT(verdict->ranks(), ElementsAre(0, 1));
  }
}

}  // namespace
}  // namespace zerofleet::zero
