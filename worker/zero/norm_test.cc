// The gradient norm counts every element once, and padding never.
#include "worker/zero/norm.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

TEST(Norm, OwnersTogetherSeeEachElementOnce) {
  model::ModelSpec spec = *model::ModelSpec::Create(FleetSetup().model);
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  std::unique_ptr<device::Stream> stream = *device->CreateStream();
  for (int stage : {0, 2}) {
    double total = 0;
    for (int rank = 0; rank < 3; ++rank) {
      ZeroLayout layout(spec, {stage, device::DType::kF32, 1, rank, 3});
      // Ones everywhere, padding too, which must not be seen.
      std::vector<float> gradients(layout.gradient_elements(), 1.0f);
      std::vector<double> squares(layout.units());
      const device::Tensor all{gradients.data(), device::DType::kF32};
      for (int u = 0; u < layout.units(); ++u) {
        const int64_t shard = layout.ShardOffset(u, layout.stage().split_gradients);
        SumOwnedSquares(layout, u, all.Offset(shard), device->ops(), *stream, squares.data());
      }
      total += std::accumulate(squares.begin(), squares.end(), 0.0);
    }
    EXPECT_EQ(total, static_cast<double>(spec.parameters())) << "stage " << stage;
  }
}

}  // namespace
}  // namespace zerofleet::zero
