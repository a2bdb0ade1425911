// Muon's promises: the same bits in every stage and with any number of ranks, though the partition cuts its matrices;
// the traffic of one exchange more; matrices and all other tensors each by their own rule; and all this for a model in
// parts, too.
#include "worker/zero/muon_updater.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/offload_testing.h"

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

class MuonOnDevices : public testing::TestWithParam<std::tuple<std::string, device::DType>> {
 protected:
  static const std::string& device() { return std::get<0>(GetParam()); }
  static device::DType dtype() { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Devices, MuonOnDevices,
                         testing::Combine(testing::ValuesIn(UsableDevices()),
                                          testing::Values(device::DType::kF32, device::DType::kBF16)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + device::DTypeName(std::get<1>(info.param));
                         });

TEST_P(MuonOnDevices, TheSameBitsInEveryStage) {
  FleetSetup setup = MuonFleet(3, dtype());
  setup.device = device();
  const FleetResult plain = TrainFleet(setup);
  EXPECT_LT(plain.losses.back(), plain.losses.front());
  for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
    const FleetResult split = TrainFleet(setup);
    EXPECT_THAT(split.losses, ElementsAreArray(plain.losses)) << setup.stage;
    EXPECT_EQ(split.states, plain.states) << setup.stage;
  }
}

// Devices add up a product's terms in different orders, and Newton-Schulz multiplies differences along directions in
// which a gradient is almost flat by up to 3.4445^5: 2e-5 of the way in fp32, 0.08 in bf16.
TEST_P(MuonOnDevices, MovesTheWeightsAsTheCpuDoes) {
  FleetSetup setup = MuonFleet(2, dtype());
  setup.stage = 2;
  const FleetResult cpu = TrainFleet(setup);
  setup.steps = 0;
  const FleetResult before = TrainFleet(setup);
  setup.steps = 3;
  setup.device = device();
  const FleetResult other = TrainFleet(setup);
  double moved = 0, differs = 0;
  for (size_t i = 0; i < cpu.master().size(); ++i) {
    moved += std::pow(double{cpu.master()[i]} - before.master()[i], 2);
    differs += std::pow(double{cpu.master()[i]} - other.master()[i], 2);
  }
  EXPECT_LT(std::sqrt(differs / moved), dtype() == device::DType::kF32 ? 1e-4 : 0.2);
}

// The scale is decided on the device, and a step that overflows changes nothing there but the scale.
TEST(Muon, ASkippedStepChangesNothing) {
  for (const std::string& device : UsableDevices()) {
    FleetSetup setup = MuonFleet(2, device::DType::kF16);
    setup.device = device;
    setup.stage = 2;
    const FleetResult before = TrainFleet(setup);
    ++setup.steps;
    setup.tokens = [&](int64_t step) { return step == setup.steps ? int64_t{1} : int64_t{60}; };
    const FleetResult after = TrainFleet(setup);
    ASSERT_FALSE(std::isfinite(after.grad_norms.back()));
    EXPECT_EQ(after.states, before.states) << device;
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

// A step moves a matrix by learning_rate * 0.2 sqrt(longer side) in each direction, or a little more; by less where its
// gradient is almost flat.
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

// One rank whose gathers in place, in stage 3 Muon's exchanges alone, are issued and never done, as on a GPU whose peer
// does not come.
class LoneExchange : public collective::Communicator {
 public:
  LoneExchange() : Communicator(parallel::kDataGroup, collective::Topology(0, 1)) { StartThread(); }
  ~LoneExchange() override { StopThread(); }
  std::string backend() const override { return "lone"; }

 protected:
  absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) override {
    if (shard == nullptr) Issued(nullptr, std::make_shared<Never>());
    return inner_->AllGatherBytes(shard, full, count * element_bytes, "").Wait();
  }
  absl::Status RunReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                const collective::SumChain& chain) override {
    return inner_->ReduceScatter(full, shard, count, "", nullptr, chain).Wait();
  }

 private:
  class Never : public device::Event {
   public:
    absl::StatusOr<bool> Reached() const override { return false; }
    absl::Status Wait() const override { return absl::InternalError("never reached"); }
    double SecondsSince(const Event&) const override { return 0; }
  };

  const std::unique_ptr<collective::Communicator> inner_ =
      std::move(collective::CreateInProcessGroup(parallel::kDataGroup, 1)[0]);
};

// A step's numbers are there before its matrices are exchanged; a save or an evaluation comes after both.
TEST(Muon, AnExchangeThatFailsLaterFailsItsStep) {
  FleetSetup setup = MuonFleet(1, device::DType::kF32);
  setup.stage = 3;
  setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
  setup.make_group = [](const char*, const auto&) {
    std::vector<std::unique_ptr<collective::Communicator>> group;
    group.push_back(std::make_unique<LoneExchange>());
    return group;
  };
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    EXPECT_EQ(rank.Launch(1), absl::OkStatus());
    rank.communicator().Abort(absl::UnavailableError("the peer is gone"));
    EXPECT_EQ(rank.engine().Collect().status(), absl::UnavailableError("the peer is gone"));
  });
}

FleetSetup MuonInParts(int stage, int data, int tensor, device::DType dtype = device::DType::kF32) {
  FleetSetup setup = MuonFleet(data, dtype);
  setup.model = model::TestModelConfig(2, 24, 4, 12, 53);
  setup.stage = stage;
  setup.tensor = tensor;
  setup.global_sequences = 4;
  setup.learning_rate = 1e-3;
  return setup;
}

// A matrix cut by its rows, by sections of them or by its columns is orthogonalised as in a whole model.
TEST(MuonInParts, MovesMatricesAsAWholeModelDoes) {
  FleetSetup setup = MuonInParts(0, 1, 1);
  for (const bool rotary : {false, true}) {
    if (rotary) {
      setup.model.set_family("llama");
      setup.model.set_kv_heads(4);
      setup.model.set_head_size(6);
      setup.model.set_intermediate(40);
      setup.model.set_rope_theta(10000);
      setup.model.set_norm_epsilon(1e-5);
    }
    setup.stage = 0;
    setup.world_size = setup.tensor = 1;
    setup.steps = 0;
    const FleetResult before = TrainFleet(setup);
    setup.steps = 1;
    const FleetResult whole = TrainFleet(setup);
    setup.steps = 20;
    const FleetResult long_run = TrainFleet(setup);
    for (const auto& [stage, data, tensor] : {std::tuple(1, 1, 2), {3, 2, 2}, {2, 1, 4}}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << ", data " << data << ", tensor " << tensor);
      setup.stage = stage;
      setup.world_size = data;
      setup.tensor = tensor;
      setup.steps = 1;
      const FleetResult parts = TrainFleet(setup);
      double moved = 0, differs = 0;
      for (size_t i = 0; i < whole.master().size(); ++i) {
        moved = std::max(moved, std::abs(double{whole.master()[i]} - before.master()[i]));
        differs = std::max(differs, std::abs(double{whole.master()[i]} - parts.master()[i]));
      }
      EXPECT_LT(differs, 1e-3 * moved);
      setup.steps = 20;
      const FleetResult other = TrainFleet(setup);
      for (size_t i = 0; i < other.losses.size(); ++i) {
        EXPECT_NEAR(other.losses[i], long_run.losses[i], 1e-5 * long_run.losses[i]) << "step " << i + 1;
      }
    }
  }
}

TEST(MuonInParts, KeepsItsBitsInEveryStageOnEveryDevice) {
  for (const std::string& device : UsableDevices()) {
    FleetSetup setup = MuonInParts(0, 2, 2, device::DType::kBF16);
    setup.device = device;
    setup.steps = 2;
    const FleetResult plain = TrainFleet(setup);
    for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
      EXPECT_EQ(TrainFleet(setup).states, plain.states) << device << " " << setup.stage;
    }
  }
}

TEST(MuonInParts, KeepsItsBitsInEveryStageAndWithOffload) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    FleetSetup setup = MuonInParts(0, 2, 2, dtype);
    const FleetResult plain = TrainFleet(setup);
    for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
      EXPECT_EQ(TrainFleet(setup).states, plain.states) << setup.stage;
      FleetSetup offloaded = setup;
      offloaded.placement = kStatesOnHost;
      EXPECT_EQ(TrainFleet(offloaded).states, plain.states) << setup.stage << " on the host";
      offloaded.placement.fraction = 0.5;
      offloaded.states_dir = testing::TempDir();
      EXPECT_EQ(TrainFleet(offloaded).states, plain.states) << setup.stage << " in a file";
    }
  }
}

TEST(MuonInParts, KeepsItsBitsWithAnyNumberOfRanks) {
  FleetSetup setup = MuonInParts(2, 1, 2);
  setup.leaves = 4;
  const FleetResult one = TrainFleet(setup);
  for (setup.world_size = 2; setup.world_size <= 3; ++setup.world_size) {
    EXPECT_EQ(TrainFleet(setup).states, one.states) << setup.world_size;
  }
}

// For each block one all-gather more in each of the two groups, and two where late updates look ahead.
TEST(MuonInParts, PostsItsSchedule) {
  for (const bool looks_ahead : {false, true}) {
    FleetSetup setup = MuonInParts(3, 2, 2, device::DType::kBF16);
    if (looks_ahead) {
      setup.placement = kStatesOnHost;
      setup.looks_ahead = true;
    }
    const auto schedule_of = [&](const TestRank& rank) {
      return *StepSchedule({setup.model,
                            TestOptimizer(setup.optimizer),
                            rank.spec(),
                            rank.layout(),
                            {.sequences = 2, .time = setup.model.context()}});
    };
    std::vector<ScheduledCollective> adamw;
    setup.optimizer = "adamw";
    RunFleet(setup, [&](TestRank& rank) {
      if (rank.layout().options().rank + rank.layout().part().index == 0) adamw = schedule_of(rank);
    });
    setup.optimizer = "muon";
    setup.delay_after = looks_ahead ? 1 : 0;
    RunFleet(setup, [&](TestRank& rank) {
      const std::vector<ScheduledCollective> schedule = schedule_of(rank);
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      for (int64_t step = 1; step <= setup.delay_after + 1; ++step) rank.Step(step);
      ZF_CHECK(rank.Finish());
      std::vector<ScheduledCollective> posted, in_tensor;
      for (const collective::CollectiveRecord& one : rank.StopAndTakeRecords()) {
        posted.push_back({parallel::kDataGroup, one.operation, one.unit, one.gathered_bytes});
      }
      for (const collective::CollectiveRecord& one : rank.TakeTensorRecords()) {
        in_tensor.push_back({parallel::kTensorGroup, one.operation, one.unit, one.gathered_bytes});
      }
      posted.insert(posted.end(), in_tensor.begin(), in_tensor.end());
      const ZeroLayout& layout = rank.layout();
      const int64_t block = 2 * layout.partition().PaddedElements(1), times = looks_ahead ? 2 : 1;
      for (const auto& [group, gathered] :
           {std::pair(parallel::kDataGroup, block), {parallel::kTensorGroup, 2 * block}}) {
        EXPECT_EQ(BytesSent(schedule, group, 2) - BytesSent(adamw, group, 2), times * 2 * gathered / 2) << group;
      }
      if (looks_ahead) return;  // other steps came before
      EXPECT_EQ(DescribeSchedule(posted), DescribeSchedule(schedule));
    });
  }
}

}  // namespace
}  // namespace zerofleet::zero
