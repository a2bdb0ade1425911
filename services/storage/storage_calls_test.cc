// A call that does not return is named, then given up; time that the process did not run does not count. See
// storage_calls.h.
#include "services/storage/storage_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace zerofleet::services {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kStall = 30, kCallPatience = 60;
constexpr char kWhat[] = "the write of state/coordinator.json";

// A call that begins, and returns once the test allows it.
struct HeldCall {
  absl::Notification begun, returns;
  absl::Status operator()() {
    begun.Notify();
    returns.WaitForNotification();
    return absl::OkStatus();
  }
};

class StorageCallsTest : public testing::Test {
 protected:
  std::unique_ptr<StorageCalls> Calls(double stall = kStall) {
    return std::make_unique<StorageCalls>(
        StorageCalls::Limits{stall, kCallPatience}, [this](const std::string& line) { told_.push_back(line); }, clock_);
  }
  void Pass(StorageCalls& calls, int seconds) {
    for (int second = 0; second < seconds; ++second) {
      clock_.Advance(1);
      calls.Tick();
    }
  }

  FakeClock clock_;
  std::vector<std::string> told_;
};

TEST_F(StorageCallsTest, WhatReturnsIsReturned) {
  const auto calls = Calls();
  EXPECT_TRUE(calls->Run(kWhat, [] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(calls->Run(kWhat, [] { return absl::ResourceExhaustedError("full"); }).message(), "full");
  Pass(*calls, 1000);  // no call is under way
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(StorageCallsTest, WhatHangsIsNamedAndThenGivenUp) {
  HeldCall held;
  const auto calls = Calls();
  absl::Status status;
  std::thread runs([&] { status = calls->Run(kWhat, [&] { return held(); }); });
  held.begun.WaitForNotification();
  Pass(*calls, static_cast<int>(kStall));
  EXPECT_THAT(told_, IsEmpty());
  Pass(*calls, static_cast<int>(kCallPatience));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("the write of state/coordinator.json has got no further for 30 s "
                                           "(checkpoint.stall_timeout_seconds): look at its storage")));
  Pass(*calls, 1);
  runs.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("coordinator.json has got no further for 90 s"));
  EXPECT_EQ(calls->Run("another", [] { return absl::OkStatus(); }), status);  // its thread has not returned yet
  EXPECT_EQ(told_.size(), 1u);
  held.returns.Notify();
}

// The machine slept, or this process was not run.
TEST_F(StorageCallsTest, OneLongSilenceIsNoHang) {
  HeldCall held;
  const auto calls = Calls();
  absl::Status status = absl::UnknownError("it has not returned");
  std::thread runs([&] { status = calls->Run(kWhat, [&] { return held(); }); });
  held.begun.WaitForNotification();
  for (int naps = 0; naps < 20; ++naps) {
    clock_.Advance(3600);
    calls->Tick();
  }
  held.returns.Notify();
  runs.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(StorageCallsTest, WithoutALimitItIsWaitedFor) {
  HeldCall held;
  const auto calls = Calls(0);
  absl::Status status = absl::UnknownError("it has not returned");
  std::thread runs([&] { status = calls->Run(kWhat, [&] { return held(); }); });
  held.begun.WaitForNotification();
  Pass(*calls, 1000);
  held.returns.Notify();
  runs.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace
}  // namespace zerofleet::services
