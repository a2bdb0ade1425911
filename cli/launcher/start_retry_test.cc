// When a start that failed is tried again, and for how long.
#include "cli/launcher/start_retry.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(StartRetry, TriesAgainAfterAPauseUntilTheLimit) {
  StartRetry retry;
  EXPECT_TRUE(retry.Due(100));
  EXPECT_FALSE(retry.waiting());
  int attempts = 0;
  double now = 100;
  while (retry.Failed(now, 30)) {
    EXPECT_TRUE(retry.waiting());
    EXPECT_FALSE(retry.Due(now + 0.5 * StartRetry::kPauseSeconds));
    now += StartRetry::kPauseSeconds;
    EXPECT_TRUE(retry.Due(now));
    ++attempts;
  }
  EXPECT_EQ(attempts, 31);
}

TEST(StartRetry, ASuccessBeginsAnew) {
  StartRetry retry;
  ASSERT_TRUE(retry.Failed(100, 30));
  retry.Started();
  EXPECT_FALSE(retry.waiting());
  EXPECT_TRUE(retry.Failed(200, 30));
}

}  // namespace
}  // namespace zerofleet::cli
