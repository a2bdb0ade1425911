// What a step with ZeRO-Offload takes when GPU, link and host work beside each other, in virtual time
// (worker/device/cuda/emulation/virtual_time.h): as long as the slowest of them, and the first and last units, which
// have nothing to be beside. A schedule that waits where it need not has the right bits, and only shows here.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/cuda/emulation/virtual_time.h"
#include "worker/zero/deferred_streams_testing.h"

namespace zerofleet::zero {
namespace {

// In virtual microseconds.
struct Machine {
  int64_t kernel = 0, link_byte = 0, host_element = 0;
};

std::atomic<int64_t> host_element = 0;

// AdamW that takes virtual time on the host.
const optim::OptimizerRow& TimedAdamW() {
  static const optim::OptimizerRow row = [] {
    optim::OptimizerRow timed = **optim::FindOptimizer("adamw");
    timed.update = [](device::Ops& ops, device::Stream& stream, const optim::UpdatePiece& piece) {
      (*optim::FindOptimizer("adamw"))->update(ops, stream, piece);
      for (const device::DecaySegment& segment : piece.segments) {
        device::cuda::emulation::SpendHostTime(segment.count * host_element);
      }
      device::cuda::emulation::HostWrote(piece.gradient.data);  // a late update leaves its parameters here
    };
    return timed;
  }();
  return row;
}

struct RankTimes {
  std::vector<int64_t> steps, forwards;  // by step
  std::vector<int64_t> elements;         // that the rank owns, by unit

  bool operator==(const RankTimes&) const = default;
};

// Trains on such a machine; the result is indexed by rank.
std::vector<RankTimes> Train(const FleetSetup& setup, const Machine& machine) {
  device::cuda::emulation::StartVirtualTime({.kernel = machine.kernel, .link_byte = machine.link_byte});
  host_element = machine.host_element;
  std::vector<RankTimes> ranks(setup.world_size);
  RunFleet(setup, [&](TestRank& rank) {
    RankTimes& times = ranks[rank.layout().options().rank];
    for (int u = 0; u < rank.layout().units(); ++u) times.elements.push_back(rank.layout().Updated(u).elements());
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    const auto collect = [&] {
      const StepResult result = rank.engine().Collect().value();
      double seconds = 0;
      for (size_t phase = 0; phase < kMarkedPhases; ++phase) seconds += result.phases[static_cast<StepPhase>(phase)];
      times.steps.push_back(std::llround(seconds * 1e6));
      times.forwards.push_back(std::llround(result.phases[StepPhase::kForward] * 1e6));
    };
    for (int64_t step = 1; step <= setup.steps; ++step) {
      ZF_CHECK(rank.Launch(step).ok());
      if (step > setup.steps_ahead) collect();
    }
    while (rank.engine().launched() > 0) collect();
  });
  device::cuda::emulation::StopVirtualTime();
  return ranks;
}

constexpr int kBlocks = 6;

// What a rank's step would take in each part of the machine alone.
struct Parts {
  int64_t forward, backward;  // kernels: of the forward pass, and of the rest of the step
  int64_t up, down;           // the link: parameters during the forward pass, gradients during the backward pass
  int64_t host;               // the update
  // The units that nothing runs beside. A forward pass needs the embedding and two blocks before it hides anything,
  // since the next unit is gathered ahead. The last gradients are those of the first block and of the embedding, whose
  // own backward pass is short.
  int64_t first_up, first_host, last_down;
  int64_t block;  // a block's kernels, with its share of those outside of blocks
};

// `kernels` are the rank's times where nothing else takes any.
Parts PartsOf(const RankTimes& kernels, const Machine& machine) {
  const auto of_first = [&](int64_t units) {
    return std::accumulate(kernels.elements.begin(), kernels.elements.begin() + units, int64_t{0});
  };
  const int64_t all = of_first(static_cast<int64_t>(kernels.elements.size()));
  const int64_t element_on_link = 2 * machine.link_byte;  // bf16
  return {.forward = kernels.forwards.back(),
          .backward = kernels.steps.back() - kernels.forwards.back(),
          .up = all * element_on_link,
          .down = all * element_on_link,
          .host = all * machine.host_element,
          .first_up = of_first(3) * element_on_link,
          .first_host = of_first(3) * machine.host_element,
          .last_down = of_first(2) * element_on_link,
          .block = kernels.steps.back() / kBlocks};
}

class CriticalPath : public DeferredStreams {
 protected:
  // The least that a step may take, and the most.
  struct Limits {
    int64_t least, most;
  };

  // The times of one rank and of two are between the limits, and the same whenever operations run.
  static void ExpectStep(bool delays, const Machine& machine, Limits (*limits)(const Parts&)) {
    for (const int world_size : {1, 2}) {
      FleetSetup setup = Fleet(/*nccl=*/true);
      setup.model = model::TestModelConfig(kBlocks, 8, 2, 6, 17);
      setup.stage = 2;
      setup.world_size = world_size;
      setup.steps = 7;  // the last ones are all alike
      setup.placement = kStatesOnHost;
      setup.delay_after = delays ? 1 : 0;
      setup.row = &TimedAdamW();
      const std::vector<RankTimes> kernels = Train(setup, {.kernel = machine.kernel});
      const std::string what = std::to_string(world_size) + " ranks";
      UnderEverySeed(
          [&] {
            const std::vector<RankTimes> ranks = Train(setup, machine);
            for (int rank = 0; rank < world_size; ++rank) {
              const std::vector<int64_t>& steps = ranks[rank].steps;
              const Limits expected = limits(PartsOf(kernels[rank], machine));
              EXPECT_EQ(steps.back(), steps.end()[-2]) << what;
              EXPECT_GE(steps.back(), expected.least) << what;
              EXPECT_LE(steps.back(), expected.most) << what;
            }
            return ranks;
          },
          what);
    }
  }
};

TEST_F(CriticalPath, LateUpdatesUnderCompute) {
  ExpectStep(/*delays=*/true, {.kernel = 1000, .link_byte = 3, .host_element = 16}, [](const Parts& part) -> Limits {
    const int64_t least = part.forward + part.backward;
    EXPECT_GT(part.forward, part.up);
    EXPECT_GT(part.backward, part.down);
    EXPECT_GT(least, part.host);
    return {least, least + part.first_up + part.last_down};
  });
}

// The last block is computed forward once its parameters are up, and backward before the first gradient goes down.
TEST_F(CriticalPath, LateUpdatesUnderTheLink) {
  ExpectStep(/*delays=*/true, {.kernel = 1000, .link_byte = 26, .host_element = 16}, [](const Parts& part) -> Limits {
    const int64_t least = part.up + part.down;
    EXPECT_GT(part.up, part.forward);
    EXPECT_GT(part.down, part.backward);
    EXPECT_GT(least, part.host);
    return {least, least + 2 * part.block};
  });
}

// The host is never idle: it has the next step's gradients before it is done with the last one's.
TEST_F(CriticalPath, LateUpdatesOnTheHost) {
  ExpectStep(/*delays=*/true, {.kernel = 1000, .link_byte = 4, .host_element = 80}, [](const Parts& part) -> Limits {
    EXPECT_GT(part.host, std::max(part.forward + part.backward, part.up + part.down));
    return {part.host, part.host};
  });
}

// Without delay the host begins once the last gradient is down, and works beside the forward pass alone.
TEST_F(CriticalPath, UpdatesUnderCompute) {
  ExpectStep(/*delays=*/false, {.kernel = 1000, .link_byte = 2, .host_element = 4}, [](const Parts& part) -> Limits {
    const int64_t least = part.forward + part.backward;
    EXPECT_GT(part.forward, std::max(part.up, part.host));
    EXPECT_GT(part.backward, part.down);
    return {least, least + part.first_host + part.first_up + part.last_down};
  });
}

TEST_F(CriticalPath, UpdatesUnderTheLink) {
  ExpectStep(/*delays=*/false, {.kernel = 200, .link_byte = 20, .host_element = 36}, [](const Parts& part) -> Limits {
    const int64_t least = part.up + part.down;
    EXPECT_GT(part.up, std::max(part.forward, part.host));
    EXPECT_GT(part.down, part.backward);
    return {least, least + part.first_host + 2 * part.block};
  });
}

TEST_F(CriticalPath, UpdatesOnTheHost) {
  ExpectStep(/*delays=*/false, {.kernel = 1000, .link_byte = 2, .host_element = 80}, [](const Parts& part) -> Limits {
    const int64_t least = part.host + part.backward;
    EXPECT_GT(part.host, std::max(part.forward, part.up));
    EXPECT_GT(part.backward, part.down);
    return {least, least + part.first_up + part.block};
  });
}

}  // namespace
}  // namespace zerofleet::zero
