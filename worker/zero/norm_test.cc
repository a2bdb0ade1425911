// Every element counts once, padding never.
#include "worker/zero/norm.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet {
namespace {

TEST(Norm, OwnersTogetherSeeEachElementOnce) {
  ModelSpec spec = *ModelSpec::Create(FleetSetup().model);
  std::unique_ptr<Device> device = *CreateDevice({.kind = "cpu", .threads = 1});
  std::unique_ptr<Stream> stream = *device->CreateStream();
  for (int stage : {0, 2}) {
    double total = 0;
    for (int rank = 0; rank < 3; ++rank) {
      ZeroLayout layout(spec, {stage, DType::kF32, 1, rank, 3});
      // Ones everywhere, padding too, which must not be seen.
      std::vector<float> gradients(layout.gradient_elements(), 1.0f);
      std::vector<double> squares(layout.units());
      SumOwnedSquares(layout, {gradients.data(), DType::kF32}, device->ops(), *stream, squares.data());
      total += std::accumulate(squares.begin(), squares.end(), 0.0);
    }
    EXPECT_EQ(total, static_cast<double>(spec.parameters())) << "stage " << stage;
  }
}

}  // namespace
}  // namespace zerofleet
