// The real clock moves forward; the fake one moves when told.
#include "base/clock.h"

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(Clock, RealTimeDoesNotRunBackwards) {
  double before = Clock::Real().MonotonicSeconds();
  EXPECT_GE(Clock::Real().MonotonicSeconds(), before);
  EXPECT_GT(Clock::Real().Now(), absl::UnixEpoch());
}

TEST(Clock, FakeTimeStandsStillUntilAdvanced) {
  FakeClock clock;
  EXPECT_EQ(clock.MonotonicSeconds(), 0);
  clock.Advance(1.5);
  EXPECT_EQ(clock.MonotonicSeconds(), 1.5);
  EXPECT_EQ(clock.Now(), absl::UnixEpoch() + absl::Seconds(1.5));
}

}  // namespace
}  // namespace zerofleet
