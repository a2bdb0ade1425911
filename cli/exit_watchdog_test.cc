// A process that cannot end itself is ended; one that can is left alone.
#include "cli/exit_watchdog.h"

#include <gtest/gtest.h>

namespace zerofleet {
namespace {

// Named so that it runs first: the end of its child is a signal, which tests that block signals would find waiting.
TEST(ExitWatchdogDeathTest, EndsAProcessThatDoesNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ExitWatchdog watchdog(absl::Milliseconds(20));
        watchdog.Arm(absl::UnavailableError("lost rank 1"));
        watchdog.Arm(absl::InternalError("a consequence"));
        absl::Notification().WaitForNotification();
      },
      testing::ExitedWithCode(4), "^zerofleet: lost rank 1; not out after 20ms");
}

TEST(ExitWatchdogTest, LetsAProcessThatIsOutBeOut) {
  {
    ExitWatchdog never_armed(absl::ZeroDuration());
  }
  ExitWatchdog watchdog(absl::InfiniteDuration());
  watchdog.Arm(absl::UnavailableError("lost rank 1"));
}

}  // namespace
}  // namespace zerofleet
