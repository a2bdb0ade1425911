// Which losses count; see losses.h.
#include "coordinator/losses.h"

#include "gtest/gtest.h"

namespace zerofleet::coordinator {
namespace {

// A loss outside training counts where the run was then, and is at no step that may be poison.
TEST(Losses, CountSinceAStepThatTheRunHadReached) {
  Losses losses;
  losses.Add({.rank = 1, .step = 20, .reached = 20, .text = "killed"});
  losses.Add({.rank = 1, .step = -1, .reached = 20, .text = "its disk is full"});
  losses.Add({.rank = 0, .step = 30, .reached = 30, .text = "killed"});
  losses.Add({.rank = kSpare, .step = -1, .reached = 30, .text = "a spare"});
  EXPECT_EQ(losses.Since(1, 0), 2);
  EXPECT_EQ(losses.Since(1, 20), 2);
  EXPECT_EQ(losses.Since(1, 21), 0);
  EXPECT_EQ(losses.Since(kSpare, 30), 1);
  EXPECT_EQ(losses.Since(-1, 0), 0);
  EXPECT_EQ(losses.At(1, 20), 1);
  EXPECT_EQ(losses.Text(), "4 losses: killed; its disk is full; killed; a spare");
}

}  // namespace
}  // namespace zerofleet::coordinator
