// Updates before the decision (offload.speculative) on emulated GPUs: beside the backward pass, with the bits of a run
// that waits, wherever the streams are. See deferred_streams_test.cc.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "gtest/gtest.h"
#include "worker/zero/deferred_streams_testing.h"

namespace zerofleet::zero {
namespace {

using device::cuda::emulation::FastDevice;

constexpr double kClipped = 4;

// Step 3 is clipped, the others are not.
FleetSetup ClippedOnce(FleetSetup setup) {
  setup.placement = kStatesOnHost;
  setup.settings = TestOptimizer();
  setup.settings->set_grad_clip(kClipped);
  setup.tokens = [](int64_t step) { return step == 3 ? int64_t{1} : int64_t{100}; };
  setup.steps = 5;
  return setup;
}

std::atomic<int64_t> host_updates = 0;

// AdamW, each of whose updates on the host is counted.
const optim::OptimizerRow& CountingRow() {
  static const optim::OptimizerRow& row = *[] {
    auto* const counting = new optim::OptimizerRow(**optim::FindOptimizer("adamw"));
    counting->update = [](device::Ops& ops, device::Stream& stream, const optim::UpdatePiece& piece) {
      (*optim::FindOptimizer("adamw"))->update(ops, stream, piece);
      ++host_updates;
    };
    return counting;
  }();
  return row;
}

// States are updated, and put back, beside the backward pass and the decision; the bits are those of waiting.
TEST_F(DeferredStreams, UpdatesBeforeTheDecisionOverNccl) {
  const auto expect = [](FleetSetup setup, const std::string& what) {
    const auto train = [&] {
      const FleetResult result = TrainFleet(setup);
      return std::tuple(result.losses, result.states);
    };
    const auto waiting = train();
    setup.placement.timing = StatePlacement::Timing::kSpeculative;
    EXPECT_TRUE(train() == waiting) << what;
    UnderEverySeed(train, what);
  };
  FleetSetup setup = ClippedOnce(Fleet(true));
  for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
    const std::vector<double> norms = TrainFleet(setup).grad_norms;
    for (size_t i = 0; i < norms.size(); ++i) EXPECT_EQ(norms[i] > kClipped, i == 2) << "step " << i + 1;
    expect(setup, absl::StrCat("stage ", setup.stage));
  }
  setup.stage = 3;
  setup.placement.parameters_on_host = true;
  expect(setup, "parameters on the host");
  setup.placement.parameters_on_host = false;
  setup.checks = {.parameters = true, .replay = true};
  setup.check_every = 3;
  expect(setup, "checks of the ranks");
  setup.checks = {};
  setup.stage = 2;
  setup.dtype = device::DType::kF16;
  EXPECT_FALSE(std::isfinite(TrainFleet(setup).grad_norms[2]));
  expect(setup, "overflows");
  setup.micro_batches = 2;
  setup.placement.fraction = 0.4;
  expect(setup, "overflows, micro-batches, a part of the states");
}

// A guess that is right leaves nothing to do again: it starts from the control of its step, wherever the streams are.
TEST_F(DeferredStreams, RightGuessesUpdateOnce) {
  FleetSetup setup = ClippedOnce(Fleet(true));
  setup.stage = 2;
  setup.tokens = nullptr;
  setup.row = &CountingRow();
  setup.placement.timing = StatePlacement::Timing::kSpeculative;
  const auto count = [&setup] {
    host_updates = 0;
    for (const double norm : TrainFleet(setup).grad_norms) EXPECT_LT(norm, kClipped);
    return host_updates.load();
  };
  const int64_t updates_of_guesses = count();
  UnderEverySeed(count, "updates");
  setup.placement.timing = StatePlacement::Timing::kInStep;
  EXPECT_EQ(count(), updates_of_guesses);
}

std::atomic<bool> decided_alone = false;

// A device on which the n-th step is decided only when the host has begun `updates_per_step` * n updates; or after ten
// seconds, with decided_alone.
class DecidingLate : public FastDevice {
 public:
  explicit DecidingLate(int64_t updates_per_step) : FastDevice(0), ops_(updates_per_step) {}
  device::cuda::emulation::FastOps& ops() override { return ops_; }

 private:
  class LateOps : public device::cuda::emulation::FastOps {
   public:
    explicit LateOps(int64_t updates_per_step) : updates_per_step_(updates_per_step) {}
    using FastOps::DecideStep;
    void DecideStep(device::Stream& stream, const device::StepScalars* ranks, int64_t count,
                    const device::StepRule& rule, device::StepControl* control) override {
      constexpr double kLimitSeconds = 10;
      const double limit = Clock::Real().MonotonicSeconds() + kLimitSeconds;
      device::cuda::emulation::EnqueueSteps(static_cast<device::cuda::CudaStream&>(stream).handle(),
                                            [wanted = ++steps_ * updates_per_step_, limit] {
                                              using device::cuda::emulation::Progress;
                                              if (host_updates >= wanted) return Progress::kDone;
                                              if (Clock::Real().MonotonicSeconds() < limit) return Progress::kBlocked;
                                              decided_alone = true;
                                              return Progress::kDone;
                                            });
      FastOps::DecideStep(stream, ranks, count, rule, control);
    }

   private:
    const int64_t updates_per_step_;
    int64_t steps_ = 0;
  };
  LateOps ops_;
};

FleetSetup GuessingAlone(const optim::OptimizerRow& row, int64_t updates_per_step) {
  FleetSetup setup = ClippedOnce(DeferredStreams::Fleet(/*nccl=*/false));
  setup.world_size = 1;
  setup.stage = 2;
  setup.tokens = nullptr;
  setup.placement.timing = StatePlacement::Timing::kSpeculative;
  setup.row = &row;
  setup.make_device = [updates_per_step](int) { return std::make_unique<DecidingLate>(updates_per_step); };
  host_updates = 0;
  decided_alone = false;
  return setup;
}

// No step is decided before every unit of it is updated on the host, and none is updated afterwards.
TEST_F(DeferredStreams, EveryUnitMayBeUpdatedBeforeTheDecision) {
  const FleetSetup setup = GuessingAlone(CountingRow(), /*updates_per_step=*/5);
  const int64_t units = model::ModelSpec::Create(setup.model)->units().size();
  ASSERT_EQ(units, 5);
  TrainFleet(setup);
  EXPECT_FALSE(decided_alone);
  EXPECT_EQ(host_updates, units * setup.steps);
}

// The third step's guess is wrong for every unit: what is put back, and updated again, has the bits of waiting.
TEST_F(DeferredStreams, AGuessOfEveryUnitIsTakenBack) {
  constexpr int64_t kUnits = 5;
  FleetSetup setup = GuessingAlone(CountingRow(), /*updates_per_step=*/kUnits);
  setup.tokens = ClippedOnce(Fleet(/*nccl=*/false)).tokens;
  const auto guessed = TrainFleet(setup).states;
  EXPECT_FALSE(decided_alone);
  EXPECT_EQ(host_updates, kUnits * (setup.steps + 1));
  setup.placement.timing = StatePlacement::Timing::kInStep;
  setup.make_device = Fleet(/*nccl=*/false).make_device;
  EXPECT_TRUE(TrainFleet(setup).states == guessed);
}

std::atomic<bool> step_launched = false;
std::vector<const void*> updated_states;  // of the pieces, in the order of their updates

// The first update lasts until the step is decided. What is left comes in the order in which the next pass needs it.
TEST_F(DeferredStreams, AfterTheDecisionNothingIsGuessed) {
  optim::OptimizerRow held_up = **optim::FindOptimizer("adamw");
  held_up.update = [](device::Ops& ops, device::Stream& stream, const optim::UpdatePiece& piece) {
    ++host_updates;
    while (!step_launched) std::this_thread::yield();
    updated_states.push_back(piece.states.front().data);
    (*optim::FindOptimizer("adamw"))->update(ops, stream, piece);
  };
  const FleetSetup setup = GuessingAlone(held_up, /*updates_per_step=*/1);
  step_launched = false;
  updated_states.clear();
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    ZF_CHECK(rank.Launch(1).ok());
    step_launched = true;
    ZF_CHECK(rank.engine().Collect().ok());
  });
  EXPECT_FALSE(decided_alone);
  ASSERT_EQ(updated_states.size(), 5u);
  EXPECT_TRUE(std::is_sorted(updated_states.begin() + 1, updated_states.end()));
  EXPECT_GT(updated_states.front(), updated_states.back()) << "the last unit's gradient is the first";
}

}  // namespace
}  // namespace zerofleet::zero
