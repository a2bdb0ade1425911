// What the tests of fleets on emulated GPUs share: ranks over the host version of NCCL, and streams that run late as a
// seed decides (deferred_streams_test.cc).
#ifndef ZEROFLEET_WORKER_ZERO_DEFERRED_STREAMS_TESTING_H_
#define ZEROFLEET_WORKER_ZERO_DEFERRED_STREAMS_TESTING_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/collective/nccl.h"
#include "worker/device/cuda/emulation/fast_device.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/device/cuda/emulation/streams.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {

inline int64_t StreamSetting(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

// Each rank on a GPU of its own, reductions in several chunks.
inline std::vector<std::unique_ptr<collective::Communicator>> NcclGroup(const char* name,
                                                                        const std::vector<device::Device*>& devices,
                                                                        int team) {
  std::vector<std::unique_ptr<collective::NcclEndpoint>> endpoints;
  std::vector<std::string> addresses;
  for (device::Device* const device : devices) {
    endpoints.push_back(collective::NcclEndpoint::Create(*device, {.scratch_bytes = 8 << 10}, {name}).value());
    addresses.push_back(endpoints.back()->address());
  }
  std::vector<std::unique_ptr<collective::Communicator>> group;
  for (int rank = 0; rank < static_cast<int>(devices.size()); ++rank) {
    group.push_back(endpoints[rank]->Join({.name = name, .rank = rank, .addresses = addresses, .team = team}).value());
  }
  return group;
}

class DeferredStreams : public testing::Test {
 public:
  // Two ranks, steps launched one ahead. Three blocks share two slots.
  static FleetSetup Fleet(bool nccl) {
    FleetSetup setup{.model = model::TestModelConfig(3, 8, 2, 6, 17),
                     .world_size = 2,
                     .dtype = device::DType::kBF16,
                     .global_sequences = 4,
                     .steps = 3,
                     .steps_ahead = 1};
    setup.make_device = [nccl](int rank) {
      return std::make_unique<device::cuda::emulation::FastDevice>(nccl ? rank : 0);
    };
    if (nccl) setup.make_group = [](const char* name, const auto& devices) { return NcclGroup(name, devices, 0); };
    return setup;
  }

 protected:
  const int64_t busy_waits_before_ = device::cuda::emulation::BusyWaits();

  void TearDown() override {
    device::cuda::emulation::ScheduleEagerly();
    device::cuda::emulation::SetMachine({});
    EXPECT_EQ(device::cuda::emulation::BusyWaits(), busy_waits_before_);
  }

  // Runs `test` eagerly, and then under every seed; it returns what must be the same.
  template <typename Test>
  static void UnderEverySeed(const Test& test, const std::string& what) {
    const auto expected = test();
    const int64_t first = StreamSetting("ZEROFLEET_STREAM_FIRST_SEED", 1),
                  seeds = StreamSetting("ZEROFLEET_STREAM_SEEDS", 4);
    for (int64_t seed = first; seed < first + seeds; ++seed) {
      device::cuda::emulation::ScheduleBySeed(static_cast<uint64_t>(seed));
      const auto result = test();
      device::cuda::emulation::ScheduleEagerly();
      ASSERT_TRUE(result == expected) << what << ", seed " << seed;
    }
  }

  static void TrainUnderEverySeed(const FleetSetup& setup, const std::string& what) {
    UnderEverySeed(
        [&] {
          const FleetResult result = TrainFleet(setup);
          return std::tuple(result.losses, result.grad_norms, result.states);
        },
        what);
  }

  void ExpectEveryStage(bool nccl, int64_t micro_batches) {
    FleetSetup setup = Fleet(nccl);
    setup.micro_batches = micro_batches;
    for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
      TrainUnderEverySeed(setup, absl::StrCat("stage ", setup.stage, ", ", micro_batches, " micro-batches, ",
                                              nccl ? "nccl" : "staged"));
    }
  }
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_DEFERRED_STREAMS_TESTING_H_
