// Muon's promises: the same bits in every stage and with any number of ranks, though the partition cuts its matrices;
// the traffic of one exchange more; matrices and the rest each by their rule.
#include "worker/zero/muon_updater.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

FleetSetup MuonFleet(int world_size, device::DType dtype) {
  return {.model = model::TestModelConfig(2, 24, 3, 10, 53),
          .world_size = world_size,
          .dtype = dtype,
          .global_sequences = 6,
          .steps = 3,
          .optimizer = "muon"};
}

TEST(Muon, TheSameBitsInEveryStage) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    FleetSetup setup = MuonFleet(3, dtype);
    const FleetResult plain = TrainFleet(setup);
    EXPECT_LT(plain.losses.back(), plain.losses.front());
    for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
      const FleetResult split = TrainFleet(setup);
      EXPECT_THAT(split.losses, ElementsAreArray(plain.losses)) << setup.stage;
      EXPECT_EQ(split.states, plain.states) << setup.stage;
    }
  }
}

TEST(Muon, TheSameBitsWithAnyNumberOfRanks) {
  FleetSetup setup = MuonFleet(1, device::DType::kBF16);
  setup.leaves = 6;
  setup.stage = 2;
  const FleetResult one = TrainFleet(setup);
  for (const int world_size : {2, 3, 5}) {
    for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
      setup.world_size = world_size;
      EXPECT_EQ(TrainFleet(setup).states, one.states) << world_size << " " << setup.stage;
    }
  }
}

// A step moves a matrix by learning_rate * 0.2 sqrt(longer side) in each direction, or a little more; where its
// gradient is almost flat by less.
TEST(Muon, MatricesMoveByTheirSizeAndTheRestAsWithAdamW) {
  FleetSetup setup = MuonFleet(2, device::DType::kF32);
  setup.stage = 2;
  setup.settings = TestOptimizer("muon");
  setup.settings->set_weight_decay(0);
  setup.settings->set_grad_clip(0);
  setup.steps = 0;
  const FleetResult before = TrainFleet(setup);
  setup.steps = 1;
  const FleetResult muon = TrainFleet(setup);
  setup.optimizer = "adamw";
  setup.settings->set_name("adamw");
  const FleetResult adamw = TrainFleet(setup);
  const model::ModelSpec spec = SpecOf(setup, 0);
  for (const model::TensorSpec& tensor : spec.tensors()) {
    double squares = 0;
    for (int64_t i = tensor.flat_begin; i < tensor.flat_end; ++i) {
      const double moved = double{muon.master()[i]} - before.master()[i];
      squares += moved * moved;
      if (!tensor.projects) {
        ASSERT_EQ(muon.master()[i], adamw.master()[i]) << tensor.name;
      }
    }
    if (!tensor.projects) continue;
    const auto rows = static_cast<double>(tensor.shape[0]), columns = static_cast<double>(tensor.shape[1]);
    const double expected = 1e-2 * 0.2 * std::sqrt(std::max(rows, columns)) * std::sqrt(std::min(rows, columns));
    EXPECT_LT(std::sqrt(squares), 1.25 * expected) << tensor.name;
    EXPECT_GT(std::sqrt(squares), 0.2 * expected) << tensor.name;
  }
}

// One all-gather for each block, of the compute type.
TEST(Muon, ExchangesEachBlockOnce) {
  FleetSetup setup = MuonFleet(2, device::DType::kBF16);
  setup.stage = 1;
  const auto sent = [](const FleetSetup& one) {
    int64_t bytes = 0;
    RunFleet(one, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(1).ok());
      rank.Step(1);
      ZF_CHECK(rank.engine().Finish().ok());
      if (rank.layout().options().rank != 0) return;
      for (const auto& [operation, totals] : rank.communicator().totals()) bytes += totals.bytes;
    });
    return bytes;
  };
  const int64_t muon = sent(setup);
  setup.optimizer = "adamw";
  const ZeroLayout layout(SpecOf(setup, 0), {.stage = 1, .world_size = 2});
  EXPECT_EQ(muon - sent(setup), 2 * 2 * layout.partition().ShardElements(1));
}

}  // namespace
}  // namespace zerofleet::zero
