// Signals taken as values.
#include "cli/stop_signals.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace zerofleet {
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

}  // namespace
}  // namespace zerofleet
