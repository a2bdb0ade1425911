// A process that cannot end itself is ended; one that can is not touched.
#include "cli/launcher/exit_watchdog.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace zerofleet::cli {
namespace {

// Named so that it runs first: the end of its child is a signal, which tests that block signals would find pending.
TEST(ExitWatchdogDeathTest, EndsAProcessThatDoesNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ExitWatchdog watchdog(absl::Milliseconds(20));
        watchdog.Arm(absl::UnavailableError("lost rank 1"));
        watchdog.Arm(absl::InternalError("a consequence"));
        absl::Notification().WaitForNotification();
      },
      testing::ExitedWithCode(4), "^zerofleet: lost rank 1; still not ended after 20ms");
}

// A limit on processes does not bind root, so the process changes its user first.
void HangsWithoutRoomForAThread() {
  const rlimit few = {1, 1};
  setrlimit(RLIMIT_NPROC, &few);
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(1);
  ExitWatchdog watchdog(absl::Milliseconds(20));
  watchdog.Arm(absl::ResourceExhaustedError("no thread can be started"));
  while (true) pause();
}

TEST(ExitWatchdogDeathTest, NeedsNoThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(HangsWithoutRoomForAThread(), testing::ExitedWithCode(3), "^zerofleet: no thread can be started");
}

TEST(ExitWatchdogTest, LetsAProcessThatIsOutBeOut) {
  { ExitWatchdog never_armed(absl::ZeroDuration()); }
  ExitWatchdog watchdog(absl::InfiniteDuration());
  watchdog.Arm(absl::UnavailableError("lost rank 1"));
}

}  // namespace
}  // namespace zerofleet::cli
