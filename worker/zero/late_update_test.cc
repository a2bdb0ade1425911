// Late updates (ZeRO-Offload §5.2) on a device that is not the host: computed beside the whole next step, with the bits
// of a device on which nothing runs beside anything.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

FleetSetup LateFleet(int stage, int world_size, device::DType dtype) {
  FleetSetup setup = OffloadFleet(stage, world_size, dtype, 8);
  setup.placement = kStatesOnHost;
  setup.delay_after = 2;
  setup.flushes = true;
  return setup;
}

FleetSetup Away(FleetSetup setup) {
  setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
  setup.steps_ahead = 1;
  return setup;
}

TEST(LateUpdate, BesideTheNextStepChangesNoBit) {
  using enum device::DType;
  for (const device::DType dtype : {kF32, kBF16, kF16}) {
    for (const int stage : {1, 2, 3}) {
      for (const bool looks_ahead : {false, true}) {
        FleetSetup setup = LateFleet(stage, 2, dtype);
        setup.looks_ahead = looks_ahead;
        ExpectTheSameRun(setup, Away(setup), absl::StrCat(device::DTypeName(dtype), ", stage ", stage, looks_ahead));
      }
    }
  }
}

TEST(LateUpdate, BesideTheNextStepChangesNoBitWithOtherSettings) {
  FleetSetup setup = LateFleet(2, 2, device::DType::kBF16);
  setup.global_sequences = 12;
  setup.micro_batches = 3;
  ExpectTheSameRun(setup, Away(setup), "gradients in fp32");
  setup.optimizer = "sgd";
  ExpectTheSameRun(setup, Away(setup), "sgd");
  setup.ema_decay = 0.75;
  ExpectTheSameRun(setup, Away(setup), "an average");
  setup.stage = 3;
  setup.placement.parameters_on_host = true;
  ExpectTheSameRun(setup, Away(setup), "parameters on the host");
  setup = LateFleet(3, 2, device::DType::kBF16);
  FleetSetup in_file = Away(setup);
  in_file.states_dir = testing::TempDir();
  ExpectTheSameRun(setup, in_file, "states in a file");
  setup = FleetOfSeveralTiles(2);
  setup.placement = kStatesOnHost;
  setup.delay_after = 1;
  setup.flushes = true;
  ExpectTheSameRun(setup, Away(setup), "several tiles");
}

// A step that overflows is held back like any other, and changes nothing.
TEST(LateUpdate, BesideTheNextStepLeavesOutAStepThatOverflows) {
  for (const bool looks_ahead : {false, true}) {
    FleetSetup setup = LateFleet(2, 2, device::DType::kF16);
    setup.looks_ahead = looks_ahead;
    setup.tokens = [](int64_t step) { return step == 5 ? int64_t{0} : int64_t{60}; };
    ExpectTheSameRun(setup, Away(setup), absl::StrCat(looks_ahead));
  }
}

std::atomic<int64_t> pieces_updated = 0;

// What is held back is computed before the next step is launched, without another call.
TEST(LateUpdate, IsComputedBesideTheNextStep) {
  optim::OptimizerRow counting = **optim::FindOptimizer("adamw");
  counting.update = [](device::Ops& ops, device::Stream& stream, const optim::UpdatePiece& piece) {
    (*optim::FindOptimizer("adamw"))->update(ops, stream, piece);
    ++pieces_updated;
  };
  FleetSetup setup = Away(LateFleet(2, 1, device::DType::kBF16));
  setup.delay_after = 1;
  setup.row = &counting;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    rank.Step(1);
    const int64_t in_a_step = pieces_updated;
    EXPECT_EQ(in_a_step, rank.layout().units());  // each unit is one tile
    rank.Step(2);                                 // the first that is held back
    while (pieces_updated < 2 * in_a_step) std::this_thread::yield();
    rank.Step(3);
    while (pieces_updated < 3 * in_a_step) std::this_thread::yield();
    ZF_CHECK(rank.engine().Flush().ok());
    EXPECT_EQ(pieces_updated, 3 * in_a_step) << "a flush computed something again";
  });
}

std::atomic<bool> may_update = true;

// The update of what is held back is kept from ending until the next step's end has been enqueued.
TEST(LateUpdate, ParametersAreSentOnceTheyAreMade) {
  optim::OptimizerRow held_up = **optim::FindOptimizer("adamw");
  held_up.update = [](device::Ops& ops, device::Stream& stream, const optim::UpdatePiece& piece) {
    while (!may_update) std::this_thread::yield();
    (*optim::FindOptimizer("adamw"))->update(ops, stream, piece);
  };
  const auto train = [&](bool late) {
    FleetSetup setup = Away(LateFleet(2, 1, device::DType::kBF16));
    setup.delay_after = 1;
    setup.row = &held_up;
    std::vector<double> losses;
    RunFleet(setup, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(1).ok());
      rank.Step(1);
      may_update =
          !late;  // step 2 is the first that is held back, so nothing waits for its update before the end of step 3
      ZF_CHECK(rank.Launch(2).ok());
      ZF_CHECK(rank.Launch(3).ok());
      // Only what would be found takes time: a copy that does not wait.
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      may_update = true;
      for (int64_t step = 2; step <= 5; ++step) {
        losses.push_back(rank.engine().Collect()->loss);
        if (step < 4) ZF_CHECK(rank.Launch(step + 2).ok());
      }
    });
    return losses;
  };
  EXPECT_EQ(train(true), train(false));
}

}  // namespace
}  // namespace zerofleet::zero
