// What ZeRO promises, on whole fleets: the same bits in every stage, the paper's memory and traffic, the static
// schedule.
#include "worker/zero/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/divergence.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

double RelativeDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return most;
}

struct BitsCase {
  int world_size;
  device::DType dtype;
  std::string optimizer = "adamw";
  bool packed = false;
};

class SameBits : public testing::TestWithParam<std::tuple<std::string, BitsCase>> {
 protected:
  FleetSetup Fleet() const {
    const auto& [device, bits] = GetParam();
    FleetSetup setup{.world_size = bits.world_size, .dtype = bits.dtype, .device = device, .optimizer = bits.optimizer};
    setup.packed = bits.packed;
    // An emulated GPU takes tens of milliseconds per sequence. Two steps show what differs between stages.
    if (device != "cpu") {
      setup.model = model::TestModelConfig(2, 24, 2, 10, 53);
      setup.global_sequences = std::max(2, bits.world_size);
      setup.steps = 2;
    }
    return setup;
  }
};

TEST_P(SameBits, InEveryStage) {
  FleetSetup setup = Fleet();
  FleetResult plain = TrainFleet(setup);
  EXPECT_LT(plain.losses.back(), plain.losses.front() + 0.5);
  for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
    FleetResult split = TrainFleet(setup);
    EXPECT_THAT(split.losses, ElementsAreArray(plain.losses)) << "stage " << setup.stage;
    EXPECT_THAT(split.grad_norms, ElementsAreArray(plain.grad_norms)) << "stage " << setup.stage;
    EXPECT_EQ(split.states, plain.states) << "stage " << setup.stage;
  }
}

// Every world size and type together on the CPU; each of them once on other devices, where an emulated fleet takes
// seconds.
std::vector<std::tuple<std::string, BitsCase>> BitsCases() {
  using enum device::DType;
  std::vector<std::tuple<std::string, BitsCase>> cases;
  for (const std::string& device : UsableDevices()) {
    if (device == "cpu") {
      for (const device::DType dtype : {kF32, kBF16}) {
        for (int world_size = 1; world_size <= 4; world_size++) cases.push_back({device, {world_size, dtype}});
      }
      cases.push_back({device, {2, kF16}});
      cases.push_back({device, {2, kF32, "adamw", /*packed=*/true}});
      for (const BitsCase& bits : {BitsCase{3, kF32, "sgd"}, {2, kBF16, "sgd"}, {2, kF16, "sgd"}})
        cases.push_back({device, bits});
    } else {
      for (const BitsCase& bits :
           {BitsCase{1, kF32}, {4, kF32}, {3, kBF16}, {2, kF16}, {2, kBF16, "sgd"}, {2, kBF16, "adamw", true}})
        cases.push_back({device, bits});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Fleets, SameBits, testing::ValuesIn(BitsCases()), [](const auto& info) {
  const BitsCase& bits = std::get<1>(info.param);
  return std::get<0>(info.param) + "_" + device::DTypeName(bits.dtype) + "_" + std::to_string(bits.world_size) +
         (bits.optimizer == "adamw" ? "" : "_" + bits.optimizer) + (bits.packed ? "_packed" : "");
});

// Devices compute what the CPU computes, except for the order of sums within an op: of a model of each family, and of
// one of Llama's whose heads share keys and values; with one document a sequence, and with several.
TEST(Engine, EveryDeviceTrainsAsTheCpuDoes) {
  const v1::ModelConfig gpt2 = model::TestModelConfig(2, 24, 2, 10, 53);
  v1::ModelConfig llama = model::TestModelConfig(2, 32, 4, 10, 53);
  llama.set_family("llama");
  llama.set_kv_heads(2);
  llama.set_intermediate(40);
  llama.set_rope_theta(100);
  llama.set_norm_epsilon(1e-5);
  for (const std::string& device : UsableDevices()) {
    if (device == "cpu") continue;
    for (const v1::ModelConfig& model : {gpt2, llama}) {
      for (device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
        for (const bool packed : {false, true}) {
          FleetSetup setup{
              .model = model, .stage = 2, .world_size = 2, .dtype = dtype, .global_sequences = 4, .steps = 3};
          setup.packed = packed;
          std::vector<double> cpu = TrainFleet(setup).losses;
          setup.device = device;
          EXPECT_LT(RelativeDifference(cpu, TrainFleet(setup).losses), dtype == device::DType::kF32 ? 1e-4 : 1e-2)
              << device << " " << model.family() << " " << device::DTypeName(dtype) << (packed ? ", packed" : "");
        }
      }
    }
  }
}

TEST(Engine, StagesAgreeWithSeveralMicroBatches) {
  FleetSetup setup{.world_size = 2, .global_sequences = 16, .micro_batches = 4, .steps = 10};
  FleetResult plain = TrainFleet(setup);
  for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
    FleetResult split = TrainFleet(setup);
    EXPECT_LT(RelativeDifference(plain.losses, split.losses), 1e-6) << "stage " << setup.stage;
    EXPECT_LT(RelativeDifference(plain.grad_norms, split.grad_norms), 1e-5) << "stage " << setup.stage;
  }
}

TEST(Engine, WorldSizesAndMicroBatchesSeeTheSameBatch) {
  FleetSetup setup{.stage = 2, .global_sequences = 16, .steps = 10};
  FleetResult one = TrainFleet(setup);
  setup.world_size = 4;
  EXPECT_LT(RelativeDifference(one.losses, TrainFleet(setup).losses), 1e-5);
  setup.world_size = 1;
  setup.micro_batches = 4;
  EXPECT_LT(RelativeDifference(one.losses, TrainFleet(setup).losses), 1e-5);
}

// ZeRO §3.1 and §5: (2 + 2 + K) bytes per parameter, each split as the stage says, padding included. K is 12 with
// AdamW: a master weight and two averages; 8 with SGD, whose momentum is one vector.
class Memory : public testing::TestWithParam<std::pair<const char*, int64_t>> {};

TEST_P(Memory, IsThePapers) {
  const auto& [optimizer, k] = GetParam();
  for (int world_size : {1, 2, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      FleetSetup setup{.stage = stage, .world_size = world_size, .dtype = device::DType::kBF16, .optimizer = optimizer};
      RunFleet(setup, [&, k = k](TestRank& rank) {
        int64_t padded = rank.layout().partition().TotalPaddedElements();
        auto current = [&](memory::Category category) {
          return rank.arena().figures().categories[static_cast<int>(category)].current;
        };
        EXPECT_EQ(current(memory::Category::kParameters), 2 * padded / (stage >= 3 ? world_size : 1));
        EXPECT_EQ(current(memory::Category::kGradients), 2 * padded / (stage >= 2 ? world_size : 1));
        EXPECT_EQ(current(memory::Category::kOptimizer), k * padded / (stage >= 1 ? world_size : 1));
        int64_t units = rank.layout().units();
        EXPECT_LT(padded - rank.spec().parameters(), units * world_size * coordinator::kShardAlignment);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Memory, testing::Values(std::pair("adamw", 12), std::pair("sgd", 8)),
                         [](const auto& info) { return std::string(info.param.first); });

// ZeRO §7: 2Ψ elements per step in stages 0 to 2, 3Ψ in stage 3 (sent and received as the paper counts), of which a
// rank sends (N-1)/N. The head's norm is used once per step for forward and backward together, so stage 3 gathers it
// once.
TEST(Engine, TrafficIsThePapers) {
  for (int world_size : {2, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      FleetSetup setup{.stage = stage, .world_size = world_size, .steps = 3};
      RunFleet(setup, [&](TestRank& rank) {
        ZF_CHECK(rank.engine().Initialize(1).ok());
        auto sent = [&] {
          int64_t bytes = 0;
          for (const auto& [operation, totals] : rank.communicator().totals()) bytes += totals.bytes;
          return bytes;
        };
        EXPECT_EQ(sent(), 0);  // initial weights come from the seed, not from a peer
        for (int64_t step = 1; step <= setup.steps; ++step) rank.Step(step);
        ZF_CHECK(rank.engine().Finish().ok());
        int64_t padded = rank.layout().partition().TotalPaddedElements();
        int64_t head = rank.layout().partition().PaddedElements(rank.layout().units() - 1);
        int64_t elements = stage == 3 ? 3 * padded - head : 2 * padded;
        int64_t scalars = static_cast<int64_t>(sizeof(double)) * 4 * (world_size - 1);
        EXPECT_EQ(sent(), setup.steps * (elements * 4 / world_size * (world_size - 1) + scalars))
            << "stage " << stage << " of " << world_size;
      });
    }
  }
}

// Runs one step of `setup` and compares what was posted with the schedule.
void ExpectTheSchedule(const FleetSetup& setup) {
  SCOPED_TRACE(absl::StrCat("stage ", setup.stage, ", ", device::DTypeName(setup.dtype), ", ", setup.micro_batches,
                            " micro-batches"));
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    rank.Step(1);
    ZF_CHECK(rank.engine().Finish().ok());
    const std::vector<ScheduledCollective> schedule = *StepSchedule({setup.model,
                                                                     TestOptimizer(),
                                                                     rank.spec(),
                                                                     rank.layout(),
                                                                     {.checkpointing = setup.checkpointing},
                                                                     setup.checks});
    std::vector<collective::CollectiveRecord> records = rank.StopAndTakeRecords();
    ASSERT_FALSE(schedule.empty());
    ASSERT_GE(records.size(), schedule.size());
    records.erase(records.begin(), records.end() - static_cast<int64_t>(schedule.size()));  // drops those before step 1
    for (size_t i = 0; i < schedule.size(); ++i) {
      EXPECT_EQ(
          (ScheduledCollective{parallel::kDataGroup, records[i].operation, records[i].unit, records[i].gathered_bytes}),
          schedule[i])
          << "operation " << i;
    }
  });
}

// Types matter: with several micro-batches gradients rest in fp32 and, where they are split, travel in bf16.
TEST(Engine, PostsExactlyTheSchedule) {
  for (device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (int64_t micro_batches : {1, 3}) {
      for (int stage = 0; stage <= 3; ++stage) {
        ExpectTheSchedule({.stage = stage, .world_size = 2, .dtype = dtype, .micro_batches = micro_batches});
        ExpectTheSchedule({.stage = stage,
                           .world_size = 2,
                           .dtype = dtype,
                           .micro_batches = micro_batches,
                           .checks = {.parameters = true, .replay = true}});
      }
    }
  }
}

TEST(Engine, DivergenceIsSaidAndTheStateKept) {
  FleetSetup setup{.stage = 2, .world_size = 2};
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    float* master = rank.engine().state().master();
    std::vector<float> before = rank.Read(master, rank.layout().optimizer_elements());
    before[3] = std::numeric_limits<float>::infinity();
    rank.Write(master, before);
    ZF_CHECK(rank.engine().PublishLoadedState({}).ok());
    EXPECT_THAT(std::string(rank.TryStep(7).status().message()), HasSubstr("step 7"));
    EXPECT_EQ(rank.Read(master, rank.layout().optimizer_elements()), before);
  });
}

// A step launched before the previous one is collected gives the same numbers as one launched after.
TEST(Engine, StepsMayBeReadOneLate) {
  FleetSetup setup{.stage = 2, .world_size = 2, .dtype = device::DType::kBF16};
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    std::vector<double> plain, late;
    for (int64_t step = 1; step <= 4; ++step) plain.push_back(rank.Step(step).loss);
    ZF_CHECK(rank.engine().Initialize(1).ok());
    for (int64_t step = 1; step <= 4; ++step) {
      ZF_CHECK(rank.Launch(step).ok());
      if (step > 1) late.push_back(rank.engine().Collect()->loss);
    }
    EXPECT_EQ(rank.engine().launched(), 1);
    late.push_back(rank.engine().Collect()->loss);
    EXPECT_EQ(plain, late);
  });
}

// Micikevicius et al. 2018 §3.2: the scale starts at 2^16; a step that overflows halves it and changes nothing else.
TEST(Engine, Fp16OverflowSkipsTheStepAndHalvesTheScale) {
  FleetSetup setup{.stage = 2, .world_size = 2, .dtype = device::DType::kF16};
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    EXPECT_EQ(rank.engine().control().loss_scale, 65536);
    device::StepControl control;
    control.loss_scale = 0x1p40;  // far past what fp16 gradients hold
    ZF_CHECK(rank.engine().PublishLoadedState(control).ok());
    float* master = rank.engine().state().master();
    std::vector<float> before = rank.Read(master, rank.layout().optimizer_elements());
    StepResult result = rank.Step(1);
    EXPECT_TRUE(result.skipped);
    EXPECT_EQ(result.loss_scale, 0x1p39);
    EXPECT_EQ(rank.Read(master, rank.layout().optimizer_elements()), before);
    EXPECT_EQ(rank.engine().control().skipped, 1);
    int64_t step = 1;
    while (result.skipped) result = rank.Step(++step);
    EXPECT_EQ(rank.engine().control().updates, 1);
    EXPECT_NE(rank.Read(master, rank.layout().optimizer_elements()), before);
  });
}

// At every scale above the smallest one there is a smaller scale to try.
TEST(Engine, Fp16OverflowIsDivergenceAtAScaleOfOneOnly) {
  FleetSetup setup{.stage = 2, .world_size = 2, .dtype = device::DType::kF16};
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    float* master = rank.engine().state().master();
    std::vector<float> weights = rank.Read(master, rank.layout().optimizer_elements());
    weights[3] = std::numeric_limits<float>::infinity();
    rank.Write(master, weights);
    device::StepControl control;
    control.loss_scale = 4;
    ZF_CHECK(rank.engine().PublishLoadedState(control).ok());
    for (const auto& [step, scale] : {std::pair(1, 2.0), std::pair(2, 1.0)}) {
      const absl::StatusOr<StepResult> result = rank.TryStep(step);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->skipped);
      EXPECT_EQ(result->loss_scale, scale);
    }
    EXPECT_TRUE(DivergenceOf(rank.TryStep(3).status()).has_value());
  });
}

// The loss scale cancels out except for rounding: fp16 trains as fp32 does.
TEST(Engine, Fp16TrainsAsFp32Does) {
  FleetSetup setup{.stage = 1, .world_size = 2, .steps = 12};
  std::vector<double> exact = TrainFleet(setup).losses;
  setup.dtype = device::DType::kF16;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    device::StepControl control = rank.engine().control();
    control.loss_scale = 1024;  // no step of this run overflows
    ZF_CHECK(rank.engine().PublishLoadedState(control).ok());
    std::vector<double> losses;
    for (int64_t step = 1; step <= setup.steps; ++step) losses.push_back(rank.Step(step).loss);
    EXPECT_EQ(rank.engine().control().skipped, 0);
    EXPECT_LT(RelativeDifference(exact, losses), 5e-3);
  });
}

TEST(Engine, FlagsReachEveryRank) {
  FleetSetup setup{.stage = 3, .world_size = 3};
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    uint64_t mine = rank.layout().options().rank == 1 ? 4 : 0;
    EXPECT_EQ(rank.TryStep(1, mine)->flags, 4u);
  });
}

}  // namespace
}  // namespace zerofleet::zero
