// Waiting with a limit ends with the work, with a failure, or with the limit.
#include <gtest/gtest.h>

#include "worker/device/device.h"

namespace zerofleet::device {
namespace {

// Returns false `looks` times, then `end`.
class CountingEvent : public Event {
 public:
  CountingEvent(int looks, absl::StatusOr<bool> end) : looks_(looks), end_(std::move(end)) {}
  absl::StatusOr<bool> Reached() const override { return looks_-- > 0 ? absl::StatusOr<bool>(false) : end_; }
  absl::Status Wait() const override { return absl::InternalError("it may never return"); }
  double SecondsSince(const Event&) const override { return 0; }

 private:
  mutable int looks_;
  const absl::StatusOr<bool> end_;
};

TEST(EventTest, SettlesWithTheWorkOrWithAFailure) {
  EXPECT_TRUE(CountingEvent(3, true).SettledWithin(60));
  EXPECT_TRUE(CountingEvent(3, absl::InternalError("the device failed")).SettledWithin(60));
}

TEST(EventTest, AnEventThatIsNotReachedDoesNotSettle) {
  EXPECT_FALSE(CountingEvent(0, false).SettledWithin(0));
  EXPECT_FALSE(CountingEvent(0, false).SettledWithin(0.001));
}

}  // namespace
}  // namespace zerofleet::device
