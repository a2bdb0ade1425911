// Signals polled as values.
#include "cli/launcher/stop_signals.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(StopSignals, HaveNames) {
  EXPECT_EQ(SignalName(SIGKILL), "SIGKILL");
  EXPECT_EQ(SignalName(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(SignalName(40), "signal 40");
}

TEST(StopSignals, AreTakenOneByOne) {
  const StopSignals signals;
  EXPECT_EQ(signals.Wait(0), 0);
  raise(SIGTERM);
  EXPECT_EQ(signals.Wait(0), SIGTERM);
  EXPECT_EQ(signals.Wait(0), 0);
}

TEST(StopSignals, TheFirstIsKept) {
  StopSignals signals;
  EXPECT_EQ(signals.First(), 0);
  raise(SIGINT);
  EXPECT_EQ(signals.First(), SIGINT);
  EXPECT_EQ(signals.First(), SIGINT);
}

TEST(StopSignals, AHangupIsASignalToStopWhichMayComeTwice) {
  StopSignals signals;
  struct sigaction action = {};
  sigaction(SIGHUP, nullptr, &action);
  if (action.sa_handler == SIG_IGN) GTEST_SKIP() << "NOT TESTED: this test runs under nohup";
  raise(SIGHUP);
  EXPECT_EQ(signals.First(), SIGHUP);
  raise(SIGHUP);  // would end this process
  EXPECT_EQ(signals.Wait(0), SIGHUP);
  EXPECT_EQ(StopExitCode(SIGHUP), 143);
  EXPECT_EQ(StopExitCode(SIGTERM), 143);
  EXPECT_EQ(StopExitCode(SIGINT), 130);
}

TEST(StopSignals, UnderNohupAHangupStaysIgnored) {
  signal(SIGHUP, SIG_IGN);
  sigset_t hangup;
  sigemptyset(&hangup);
  sigaddset(&hangup, SIGHUP);
  pthread_sigmask(SIG_UNBLOCK, &hangup, nullptr);  // as at the start of a process
  StopSignals signals;
  raise(SIGHUP);
  EXPECT_EQ(signals.Wait(0), 0);
  EXPECT_EQ(signals.First(), 0);
  signal(SIGHUP, SIG_DFL);
}

}  // namespace
}  // namespace zerofleet::cli
