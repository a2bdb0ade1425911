// What the update waits for, and what it does not.
#include "worker/zero/save_gate.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace zerofleet::zero {
namespace {

// A rank's two shards: 10 elements at 0, 6 at 32; padding between and after them.
const std::vector<coordinator::PlacedRange> kStored = {{100, 110, 0}, {300, 306, 32}};

TEST(SaveGate, IsOpenWhereNothingIsSaved) {
  SaveGate gate;
  EXPECT_FALSE(gate.closed());
  gate.Await(0, 1000);
  gate.Close(kStored);
  EXPECT_TRUE(gate.closed());
  EXPECT_EQ(gate.Open(), 0);
  gate.Await(0, 1000);
}

TEST(SaveGate, WhatIsNotStoredMayChange) {
  SaveGate gate;
  gate.Close(kStored);
  gate.Await(10, 22);  // padding
  gate.Await(38, 100);
  gate.Await(5, 0);
  gate.Open();
}

TEST(SaveGate, WhatHasBeenReadMayChange) {
  SaveGate gate;
  gate.Close(kStored);
  gate.OpenTo(4);
  gate.Await(0, 4);
  gate.OpenTo(10);
  gate.Await(0, 32);  // padding and all
  gate.OpenTo(38);
  gate.Await(0, 64);
  EXPECT_EQ(gate.Open(), 0);
}

// Reports when an update begins to wait.
class AskedClock : public FakeClock {
 public:
  double MonotonicSeconds() const override {
    const double seconds = FakeClock::MonotonicSeconds();
    if (!asked.HasBeenNotified()) asked.Notify();
    return seconds;
  }
  mutable absl::Notification asked;
};

// Each tile waits for its own last element, and the time is counted when it need not wait any longer.
TEST(SaveGate, AnUpdateWaitsForItsOwnTile) {
  struct Case {
    int64_t offset, count, opens_at;
  };
  for (const Case& each : {Case{0, 5, 5}, Case{4, 2, 6}, Case{0, 32, 10}, Case{8, 26, 34}, Case{32, 32, 38}}) {
    AskedClock clock;
    SaveGate gate(clock);
    gate.Close(kStored);
    absl::Notification through;
    std::thread update([&] {
      gate.Await(each.offset, each.count);
      through.Notify();
    });
    clock.asked.WaitForNotification();
    gate.OpenTo(each.opens_at - 1);
    EXPECT_FALSE(through.WaitForNotificationWithTimeout(absl::Milliseconds(5)));
    clock.Advance(3);
    gate.OpenTo(each.opens_at);
    clock.Advance(4);
    EXPECT_EQ(gate.Open(), 3);
    update.join();
  }
}

// A save that has failed holds no update up.
TEST(SaveGate, OpensForWhoWaits) {
  AskedClock clock;
  SaveGate gate(clock);
  gate.Close(kStored);
  absl::Notification through;
  std::thread update([&] {
    gate.Await(0, 1);
    through.Notify();
  });
  clock.asked.WaitForNotification();
  EXPECT_FALSE(through.HasBeenNotified());
  clock.Advance(2);
  EXPECT_EQ(gate.Open(), 2);
  through.WaitForNotification();
  update.join();
  gate.Close(kStored);  // the waited seconds begin at 0 again
  EXPECT_EQ(gate.Open(), 0);
}

}  // namespace
}  // namespace zerofleet::zero
