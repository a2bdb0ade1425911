// Shapes for given numbers of parameters, and numbers that have none.
#include "cli/planner/shape.h"

#include <cmath>

#include "gtest/gtest.h"
#include "worker/model/spec.h"

namespace zerofleet::cli {
namespace {

TEST(Shape, HasAboutAsManyParameters) {
  for (const double wanted : {1e7, 124e6, 1.5e9, 7.5e9, 13e9, 175e9, 1e12, 3.9e12}) {
    const v1::ModelConfig model = *ShapeOf(wanted, 1024, 50257);
    const double ours = static_cast<double>(model::ModelSpec::Create(model)->parameters());
    EXPECT_LT(std::abs(ours / wanted - 1), wanted < 1e9 ? 0.15 : 0.02) << wanted << ", not " << ours;
    EXPECT_EQ(model.hidden() % model.heads(), 0);
    if (wanted >= 1e9) {
      EXPECT_EQ(model.heads() % 16, 0) << "16 tensor ranks share its heads";
    }
  }
}

TEST(Shape, RefusesWhatNoModelHas) {
  for (const double bad : {0.0, -1.0, 1e5, 5e12, std::nan(""), 1e300}) {
    EXPECT_EQ(ShapeOf(bad, 1024, 50257).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(ShapeOf(2e6, 1024, 50257).ok());
  EXPECT_TRUE(ShapeOf(2e6, 1024, 256).ok());
}

}  // namespace
}  // namespace zerofleet::cli
