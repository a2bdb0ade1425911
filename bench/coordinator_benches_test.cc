// The coordinator bench forms a real fleet and ends.
#include "bench/coordinator_benches.h"

#include <unistd.h>

#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::bench {
namespace {

TEST(CoordinatorBenches, FormsAFleetAndTakesItsHeartbeats) {
  const std::string directory =
      JoinPath(::testing::TempDir(), "zerofleet_coordinator_bench_" + std::to_string(getpid()));
  ASSERT_TRUE(CreateDirectories(directory).ok());
  const auto rate = BenchCoordinator({.members = 3, .heartbeats = 20, .directory = directory});
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_EQ(rate->members, 3);
  EXPECT_GT(rate->form_seconds, 0);
  EXPECT_GT(rate->heartbeats_per_second, 0);
  EXPECT_EQ(rate->needed_per_second, 6);
  EXPECT_TRUE(RemoveTree(directory).ok());
}

TEST(CoordinatorBenches, NeedsAMember) {
  EXPECT_EQ(BenchCoordinator({.members = 0, .heartbeats = 1, .directory = "unused"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zerofleet::bench
