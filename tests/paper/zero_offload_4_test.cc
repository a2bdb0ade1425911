// ZeRO-Offload (Ren et al. 2021) §3 and §4: with the optimizer's states and update on the host a run has the bits that
// it has with them on the device; the device keeps 2 bytes per parameter (stage 3: 2/N) and memory that does not grow
// with depth; 4 bytes per parameter and step cross the link.
#include <bit>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

FleetSetup Small(int stage, int world_size, device::DType dtype) {
  return {.model = model::TestModelConfig(2, 24, 3, 10, 53),
          .stage = stage,
          .world_size = world_size,
          .dtype = dtype,
          .global_sequences = 6,
          .steps = 30};
}

// A norm that is no number compares, too.
std::vector<uint64_t> BitsOf(const std::vector<double>& values) {
  std::vector<uint64_t> bits;
  for (const double value : values) bits.push_back(std::bit_cast<uint64_t>(value));
  return bits;
}

// Returns the run's result.
FleetResult ExpectTheSameBits(FleetSetup setup, const std::string& what) {
  setup.placement = {};
  const FleetResult on_device = TrainFleet(setup);
  setup.placement = kStatesOnHost;
  const FleetResult on_host = TrainFleet(setup);
  EXPECT_THAT(on_host.losses, ElementsAreArray(on_device.losses)) << what;
  EXPECT_EQ(BitsOf(on_host.grad_norms), BitsOf(on_device.grad_norms)) << what;
  EXPECT_EQ(on_host.states, on_device.states) << what;
  return on_device;
}

TEST(OffloadSection41, GivesTheBitsOfNoOffload) {
  using enum device::DType;
  for (const device::DType dtype : {kF32, kBF16, kF16}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (int world_size = 1; world_size <= 3; ++world_size) {
        FleetSetup setup = Small(stage, world_size, dtype);
        if (dtype == kF16) setup.tokens = [](int64_t step) { return int64_t{step == 3 ? 1 : 60}; };
        const FleetResult run = ExpectTheSameBits(
            setup, absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", world_size, " ranks"));
        EXPECT_EQ(std::isfinite(run.grad_norms[2]), dtype != kF16) << "the third step was to overflow";
      }
    }
  }
}

TEST(OffloadSection41, GivesTheSameBitsWithMicroBatches) {
  for (const ReduceEvery reduce : {ReduceEvery::kMicroBatch, ReduceEvery::kStep}) {
    for (int stage = 1; stage <= 3; ++stage) {
      FleetSetup setup = Small(stage, 2, device::DType::kBF16);
      setup.micro_batches = 3;
      setup.reduce = reduce;
      setup.steps = 6;
      ExpectTheSameBits(setup, absl::StrCat("stage ", stage));
    }
  }
}

TEST(OffloadSection41, GivesTheSameBitsWhereTheUpdateRunsBesideTheSteps) {
  for (int stage = 1; stage <= 3; ++stage) {
    for (const int64_t micro_batches : {1, 2}) {
      FleetSetup setup = Small(stage, 2, device::DType::kF16);
      setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
      setup.global_sequences = 4;
      setup.micro_batches = micro_batches;
      setup.steps_ahead = 1;
      setup.steps = 8;
      ExpectTheSameBits(setup, absl::StrCat("stage ", stage, ", ", micro_batches, " micro-batches"));
    }
  }
}

// A rank that leaves a view in the middle of an update does not wait for the update.
TEST(OffloadSection41, AViewIsLeftDuringAnUpdate) {
  FleetSetup setup = Small(2, 1, device::DType::kBF16);
  setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
  setup.placement = kStatesOnHost;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    ZF_CHECK(rank.Launch(1).ok());
    ZF_CHECK(rank.Launch(2).ok());
    rank.StopAndTakeRecords();
  });
}

TEST(OffloadSection41, GivesTheSameBitsWithSgdAndWithChecksOfTheRanks) {
  FleetSetup setup = Small(2, 2, device::DType::kBF16);
  setup.steps = 6;
  setup.optimizer = "sgd";
  ExpectTheSameBits(setup, "sgd");
  setup.checks = {.parameters = true, .replay = true};
  setup.check_every = 2;
  ExpectTheSameBits(setup, "checks");
}

// Models whose units take several tiles each, both of copied data and of data stored in place.
TEST(OffloadSection41, GivesTheSameBitsTileByTile) {
  FleetSetup setup = Small(2, 1, device::DType::kBF16);
  setup.model = model::TestModelConfig(1, 256, 4, 8, 64);
  setup.global_sequences = 2;
  setup.steps = 3;
  setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
  ExpectTheSameBits(setup, "copied");
  setup.make_device = nullptr;
  setup.model = model::TestModelConfig(1, 512, 4, 8, 64);
  ASSERT_GT(12 * 512 * 512, kMostInPlaceElements);
  ExpectTheSameBits(setup, "stored in place");
}

// §3.2: 2 bytes of gradient go down and 2 of parameter up, on each rank 2/N of each; in fp32 twice that. The same holds
// where the host stores the parameters itself.
void ExpectFourBytesPerParameter(const decltype(FleetSetup::make_device)& make_device) {
  for (const device::DType dtype : {device::DType::kBF16, device::DType::kF16, device::DType::kF32}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (int world_size = 1; world_size <= 3; ++world_size) {
        FleetSetup setup = Small(stage, world_size, dtype);
        setup.make_device = make_device;
        setup.placement = kStatesOnHost;
        RunFleet(setup, [&](TestRank& rank) {
          ZF_CHECK(rank.engine().Initialize(1).ok());
          device::StepControl control = rank.engine().control();
          if (dtype == device::DType::kF16) control.loss_scale = 1024;  // no step overflows
          ZF_CHECK(rank.engine().PublishLoadedState(control).ok());
          const device::LinkTraffic before = rank.engine().link();
          constexpr int64_t kSteps = 3;
          for (int64_t step = 1; step <= kSteps; ++step) rank.Step(step);
          const device::LinkTraffic after = rank.engine().link();
          int64_t owned = 0;
          for (int u = 0; u < rank.layout().units(); ++u) owned += rank.layout().Owned(u).elements();
          const int64_t each_way = kSteps * owned * device::DTypeBytes(dtype);
          EXPECT_EQ(after.to_host.bytes - before.to_host.bytes, each_way);
          EXPECT_EQ(after.to_device.bytes - before.to_device.bytes, each_way);
          EXPECT_TRUE(world_size > 1 || owned == rank.spec().parameters());
        });
      }
    }
  }
}

TEST(OffloadSection32, FourBytesPerParameterCrossTheLink) {
  ExpectFourBytesPerParameter(nullptr);
  ExpectFourBytesPerParameter([](int) { return std::make_unique<AwayDevice>(); });
}

// §3.1, §4.2: of 16 bytes per parameter the device keeps the 2 of the parameters; buffers for data that passes through
// it do not grow with the number of layers.
TEST(OffloadSection42, TheDeviceKeepsTwoBytesPerParameter) {
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const auto device_bytes = [&](int64_t layers, int stage, int world_size, int64_t* parameters) {
    const v1::ModelConfig config = model::TestModelConfig(layers, 64, 4, 16, 64);
    const model::ModelSpec spec = *model::ModelSpec::Create(config);
    const auto model = *model::Model::Create(config, {device::DType::kBF16, 1, 16}, *device);
    const ZeroLayout layout(spec, {.stage = stage, .world_size = world_size, .placement = kStatesOnHost});
    const memory::MemoryPlan plan = PlanMemory(*model, layout, 16);
    *parameters = spec.parameters();
    return plan.Bytes(memory::Space::kDevice) - plan.Bytes(memory::Space::kDevice, memory::Category::kActivations);
  };
  for (const int world_size : {1, 2, 4}) {
    for (const auto& [stage, bytes_each] : {std::pair{2, 2.0}, {3, 2.0 / world_size}}) {
      int64_t few = 0, many = 0;
      const int64_t less = device_bytes(4, stage, world_size, &few);
      const int64_t more = device_bytes(40, stage, world_size, &many);
      EXPECT_NEAR(static_cast<double>(more - less) / static_cast<double>(many - few), bytes_each, 0.01 * bytes_each)
          << "stage " << stage << ", " << world_size << " ranks";
    }
  }
}

// Memory that has left the device is in the host's account, with the same size.
TEST(OffloadSection42, TheHostHoldsWhatHasLeftTheDevice) {
  FleetSetup setup = Small(2, 2, device::DType::kBF16);
  setup.placement = kStatesOnHost;
  RunFleet(setup, [&](TestRank& rank) {
    const auto host = rank.host_arena().figures().categories, on_device = rank.arena().figures().categories;
    const int64_t shard = rank.layout().optimizer_elements();
    const auto of = [](const auto& categories, memory::Category c) { return categories[static_cast<int>(c)].current; };
    EXPECT_EQ(of(host, memory::Category::kOptimizer), 12 * shard);
    EXPECT_EQ(of(host, memory::Category::kGradients), 2 * shard);
    EXPECT_EQ(of(on_device, memory::Category::kOptimizer), 0);
    EXPECT_EQ(of(on_device, memory::Category::kGradients), 0);
  });
}

}  // namespace
}  // namespace zerofleet::zero
