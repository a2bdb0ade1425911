// Parameters that rest in host memory (offload.parameters: cpu, stage 3): the bits of a run whose parameters rest on
// the device, which has them only while they are in use.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

void ExpectTheBitsOfTheDevice(const FleetSetup& setup, const std::string& what) {
  FleetSetup on_host = setup;
  on_host.placement = {.residence = StatePlacement::Residence::kHost, .parameters_on_host = true};
  ExpectTheSameRun(setup, on_host, what);
}

TEST(OffloadParameters, GivesTheBitsOfNoOffload) {
  using enum device::DType;
  for (const device::DType dtype : {kF32, kBF16, kF16}) {
    for (int world_size = 1; world_size <= 3; ++world_size) {
      ExpectTheBitsOfTheDevice(OffloadFleet(3, world_size, dtype, 30),
                               absl::StrCat(device::DTypeName(dtype), ", ", world_size, " ranks"));
    }
  }
}

TEST(OffloadParameters, GivesTheSameBitsWithOtherSettings) {
  FleetSetup setup = OffloadFleet(3, 2, device::DType::kBF16, 6);
  setup.placement = kStatesOnHost;
  setup.delay_after = 2;
  ExpectTheBitsOfTheDevice(setup, "late updates");
  setup.delay_after = 0;
  setup.placement.timing = StatePlacement::Timing::kSpeculative;
  ExpectTheBitsOfTheDevice(setup, "updates ahead");
  setup.placement.timing = StatePlacement::Timing::kInStep;
  setup.global_sequences = 12;
  setup.micro_batches = 3;
  ExpectTheBitsOfTheDevice(setup, "micro-batches");
  setup.reduce = ReduceEvery::kStep;
  ExpectTheBitsOfTheDevice(setup, "reduced once");
  setup.checkpointing = {.segment = 1};
  ExpectTheBitsOfTheDevice(setup, "checkpointing");
}

TEST(OffloadParameters, UpdatesEveryTileInPlace) {
  FleetSetup setup = FleetOfSeveralTiles(3);
  setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
  ExpectTheBitsOfTheDevice(setup, "several tiles");
}

TEST(OffloadParameters, GivesTheSameBitsWhereTheUpdateRunsBesideTheSteps) {
  FleetSetup setup = OffloadFleet(3, 2, device::DType::kF16, 8);
  setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
  setup.steps_ahead = 1;
  ExpectTheBitsOfTheDevice(setup, "away");
}

// A unit is copied to the device for each of its uses; its gradient goes to the host once, and updated parameters stay
// there.
TEST(OffloadParameters, MemoryAndTrafficAreThoseOfTheUses) {
  for (const int64_t micro_batches : {1, 2}) {
    FleetSetup setup = OffloadFleet(3, 2, device::DType::kBF16, 3);
    setup.global_sequences = 12;
    setup.micro_batches = micro_batches;
    setup.placement = {.residence = StatePlacement::Residence::kHost, .parameters_on_host = true};
    RunFleet(setup, [&](TestRank& rank) {
      const ZeroLayout& layout = rank.layout();
      EXPECT_EQ(BytesIn(rank.arena(), memory::Category::kParameters), 0);
      EXPECT_EQ(BytesIn(rank.host_arena(), memory::Category::kParameters), 2 * layout.partition().TotalShardElements());
      ZF_CHECK(rank.engine().Initialize(1).ok());
      for (int64_t step = 1; step <= setup.steps; ++step) rank.Step(step);
      int64_t used = 0, owned = 0;
      for (const int unit : rank.model().uses().training) used += layout.Owned(unit).elements();
      for (int u = 0; u < layout.units(); ++u) owned += layout.Owned(u).elements();
      EXPECT_GT(used, 3 * owned / 2);
      const device::LinkTraffic link = rank.engine().link();
      EXPECT_EQ(link.to_device.bytes, setup.steps * micro_batches * used * 2);
      EXPECT_EQ(link.to_host.bytes, setup.steps * owned * device::DTypeBytes(layout.gradient_dtype()));
    });
  }
}

// As the model grows, the device's memory grows only by what is kept of the activations.
TEST(OffloadParameters, TheDeviceDoesNotGrowWithTheModel) {
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const auto device_bytes = [&](int64_t layers) {
    const v1::ModelConfig config = model::TestModelConfig(layers, 64, 4, 16, 64);
    const model::ModelSpec spec = *model::ModelSpec::Create(config);
    const auto model = *model::Model::Create(config, {device::DType::kBF16, 1, 16}, *device);
    const ZeroLayout layout(
        spec, {.stage = 3, .placement = {.residence = StatePlacement::Residence::kHost, .parameters_on_host = true}});
    const memory::MemoryPlan plan = PlanMemory(*model, layout, 16);
    return plan.Bytes(memory::Space::kDevice) - plan.Bytes(memory::Space::kDevice, memory::Category::kActivations);
  };
  EXPECT_EQ(device_bytes(4), device_bytes(40));
}

}  // namespace
}  // namespace zerofleet::zero
