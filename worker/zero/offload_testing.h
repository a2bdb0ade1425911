// What the tests of offload share: a small fleet, two runs that must be equal, and a device that is not the host.
#ifndef ZEROFLEET_WORKER_ZERO_OFFLOAD_TESTING_H_
#define ZEROFLEET_WORKER_ZERO_OFFLOAD_TESTING_H_

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {

// A device that says that the host cannot address its memory, so that the engine offloads on a thread of its own.
class AwayDevice : public device::CpuDevice {
 public:
  AwayDevice() : device::CpuDevice(1) {}
  bool host_addressable() const override { return false; }
  device::Device& host() override { return host_; }

 private:
  device::CpuDevice host_{1};
};

inline FleetSetup OffloadFleet(int stage, int world_size, device::DType dtype, int64_t steps) {
  return {.model = model::TestModelConfig(2, 24, 3, 10, 53),
          .stage = stage,
          .world_size = world_size,
          .dtype = dtype,
          .global_sequences = 6,
          .steps = steps};
}

// A fleet whose units take several tiles each (state_tiles.h).
inline FleetSetup FleetOfSeveralTiles(int stage) {
  FleetSetup setup = OffloadFleet(stage, 1, device::DType::kBF16, 3);
  setup.model = model::TestModelConfig(1, 256, 4, 8, 64);
  setup.global_sequences = 2;
  return setup;
}

// Trains both fleets and expects equal results; returns the first one's.
inline FleetResult ExpectTheSameRun(const FleetSetup& wanted, const FleetSetup& got, const std::string& what) {
  FleetResult first = TrainFleet(wanted);
  const FleetResult second = TrainFleet(got);
  EXPECT_THAT(second.losses, testing::ElementsAreArray(first.losses)) << what;
  EXPECT_EQ(second.states, first.states) << what;
  return first;
}

inline int64_t BytesIn(const memory::Arena& arena, memory::Category category) {
  return arena.figures().categories[static_cast<int>(category)].current;
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_OFFLOAD_TESTING_H_
