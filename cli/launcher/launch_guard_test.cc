// Signals and limits before a run has started, in separate processes.
#include "cli/launcher/launch_guard.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "cli/launcher/stop_signals.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

void SendsItself(int signal) {
  const StopSignals blocked;
  const LaunchGuard guard(absl::InfiniteDuration(), blocked);
  kill(getpid(), signal);
  absl::Notification().WaitForNotification();
}

bool StopsOnHangup() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  const sigset_t stopping = StopSignals().Stopping();
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  return sigismember(&stopping, SIGHUP) == 1;
}

TEST(LaunchGuardDeathTest, ASignalEndsAStartAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(SendsItself(SIGTERM), testing::ExitedWithCode(143),
              "^zerofleet: stopped by SIGTERM before the run started");
  EXPECT_EXIT(SendsItself(SIGINT), testing::ExitedWithCode(130),
              "^zerofleet: stopped by SIGINT before the run started");
}

TEST(LaunchGuardDeathTest, SoDoesAHangup) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (!StopsOnHangup()) GTEST_SKIP() << "NOT TESTED: this test runs under nohup";
  EXPECT_EXIT(SendsItself(SIGHUP), testing::ExitedWithCode(143),
              "^zerofleet: stopped by SIGHUP before the run started");
}

TEST(LaunchGuardDeathTest, AStartThatHangsIsEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const StopSignals blocked;
        const LaunchGuard guard(absl::Milliseconds(20), blocked);
        absl::Notification().WaitForNotification();
      },
      testing::ExitedWithCode(4), "^zerofleet: the fleet did not start in 20ms; ending now");
}

// A limit on processes does not bind root, so the process changes its user first.
void AsksForThreadsItMayNotStart() {
  const rlimit few = {1, 1};
  setrlimit(RLIMIT_NPROC, &few);
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(1);
  const absl::Status status = CheckRoomForThreads(8);
  dprintf(STDERR_FILENO, "%s\n", std::string(status.message()).c_str());
  _exit(absl::IsResourceExhausted(status) ? 3 : 0);
}

TEST(LaunchGuardDeathTest, RoomForThreadsIsFoundOutBeforehand) {
  EXPECT_EXIT(AsksForThreadsItMayNotStart(), testing::ExitedWithCode(3),
              "^only 0 threads can be started, and the run needs room for 8: .*ulimit -u");
  EXPECT_TRUE(CheckRoomForThreads(8).ok());
}

// Exits with 3 and the message if there is no room for 80 files, otherwise with 0. `allowed` is the soft limit, `most`
// the hard one.
[[noreturn]] void OpensFiles(rlim_t allowed, rlim_t most) {
  const rlimit limit = {allowed, most};
  setrlimit(RLIMIT_NOFILE, &limit);
  const absl::Status status = MakeRoomForFiles(80);
  dprintf(STDERR_FILENO, "%s\n", std::string(status.message()).c_str());
  rlimit now = {};
  getrlimit(RLIMIT_NOFILE, &now);
  _exit(!status.ok() ? 3 : now.rlim_cur >= 80 ? 0 : 1);
}

TEST(LaunchGuardDeathTest, RoomForFilesIsMadeBeforehand) {
  EXPECT_EXIT(OpensFiles(32, 32), testing::ExitedWithCode(3), "may have 32 files open.* room for 80; .*ulimit -n");
  EXPECT_EXIT(OpensFiles(32, 80), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(OpensFiles(80, 80), testing::ExitedWithCode(0), "");
}

[[noreturn]] void ServesClients(rlim_t allowed, rlim_t most) {
  const rlimit limit = {allowed, most};
  setrlimit(RLIMIT_NOFILE, &limit);
  MakeRoomForClients();
  rlimit now = {};
  getrlimit(RLIMIT_NOFILE, &now);
  dprintf(STDERR_FILENO, "%d of %d\n", static_cast<int>(now.rlim_cur), static_cast<int>(now.rlim_max));
  _exit(0);
}

TEST(LaunchGuardDeathTest, RoomForClientsIsWhatTheHardLimitAllows) {
  EXPECT_EXIT(ServesClients(32, 80), testing::ExitedWithCode(0), "80 of 80");
  EXPECT_EXIT(ServesClients(80, 80), testing::ExitedWithCode(0), "80 of 80");
}

TEST(LaunchGuardDeathTest, LetsAStartThatEndsBe) {
  EXPECT_EXIT(
      {
        const StopSignals blocked;
        { const LaunchGuard guard(absl::InfiniteDuration(), blocked); }
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace zerofleet::cli
