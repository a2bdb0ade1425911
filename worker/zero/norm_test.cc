// Every element counts once, padding never, and every rank gets the same bits.
#include "worker/zero/norm.h"

#include <mutex>
#include <set>

#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet {
namespace {

TEST(Norm, OwnersTogetherSeeEachElementOnce) {
  for (int stage : {0, 2}) {
    std::mutex mutex;
    std::set<double> totals;
    RunFleet({.stage = stage, .world_size = 3}, [&](TestRank& rank) {
      std::unique_ptr<Device> device = *CreateDevice({.kind = "cpu", .threads = 1});
      std::unique_ptr<Stream> stream = *device->CreateStream();
      // Ones everywhere, padding too, which must not be seen.
      std::vector<float> gradients(rank.layout().gradient_elements(), 1.0f);
      double sum = 0;
      StepScalars mine{.loss_sum = 0.5};
      mine.squared_norm = *OwnedSquaredNorm(rank.layout(), {gradients.data(), DType::kF32}, device->ops(), *stream, *device, &sum);
      StepScalars all = *SumOverRanks(mine, rank.communicator());
      EXPECT_EQ(all.loss_sum, 1.5);
      std::lock_guard<std::mutex> lock(mutex);
      totals.insert(all.squared_norm);
    });
    EXPECT_EQ(totals, std::set<double>{static_cast<double>(ModelSpec::Create(FleetSetup().model)->parameters())});
  }
}

}  // namespace
}  // namespace zerofleet
