// Distances and suggestions of nearest.h.
#include "cli/nearest.h"

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(Nearest, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("heads", "heads"), 0);
  EXPECT_EQ(EditDistance("head", "heads"), 1);
  EXPECT_EQ(EditDistance("haeds", "heads"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(Nearest, TakesTheClosestAndTheFirstOfEquals) {
  EXPECT_EQ(Nearest("learning_rte", {"name", "learning_rate", "beta1"}), "learning_rate");
  EXPECT_EQ(Nearest("beta", {"beta1", "beta2"}), "beta1");
  EXPECT_EQ(Nearest("x", {}), "");
}

}  // namespace
}  // namespace zerofleet
