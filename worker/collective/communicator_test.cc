// The queue and the book-keeping, on a backend that only runs what the test tells it to.
#include "worker/collective/communicator.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"

namespace zerofleet {
namespace {

TEST(ShardRangeTest, CoversTheArrayInOrderWithEqualPartsButTheLast) {
  for (int size : {1, 2, 3, 7, 16}) {
    for (int64_t count : {0, 1, 2, 15, 16, 17, 1000}) {
      int64_t end = 0;
      for (int rank = 0; rank < size; rank++) {
        const Range range = ShardRange(count, size, rank);
        EXPECT_EQ(range.begin, end);
        EXPECT_LE(range.size(), (count + size - 1) / size);
        end = range.end;
      }
      EXPECT_EQ(end, count);
    }
  }
}

class ScriptedCommunicator : public Communicator {
 public:
  ScriptedCommunicator(std::function<absl::Status()> run, std::function<void()> wake)
      : Communicator("data", 0, 1), run_(std::move(run)), wake_(std::move(wake)) {
    StartThread();
  }
  ~ScriptedCommunicator() override { StopThread(); }
  std::string backend() const override { return "scripted"; }

 protected:
  absl::Status RunAllGather(const void*, void*, int64_t, int64_t) override { return run_(); }
  absl::Status RunReduceScatter(const void*, DType, void*, DType, int64_t) override { return run_(); }
  absl::Status RunAllReduce(void*, int64_t, DType) override { return run_(); }
  absl::Status RunBroadcast(void*, int64_t, int) override { return run_(); }
  void Wake() override { wake_(); }

 private:
  const std::function<absl::Status()> run_;
  const std::function<void()> wake_;
};

TEST(CommunicatorTest, DestructionEndsTheOperationInProgressAndCancelsTheRest) {
  absl::Notification entered;
  absl::Notification stopping;
  int wakes = 0;
  auto communicator = std::make_unique<ScriptedCommunicator>(
      [&] {
        entered.Notify();
        stopping.WaitForNotification();
        return absl::OkStatus();
      },
      [&] {
        if (++wakes == 3) stopping.Notify();  // two posts, then the destructor
      });
  const auto first = communicator->Broadcast(nullptr, 0, 0, "first");
  entered.WaitForNotification();
  const auto second = communicator->Broadcast(nullptr, 0, 0, "second");
  communicator.reset();
  EXPECT_EQ(first.Wait(), absl::OkStatus());
  EXPECT_TRUE(absl::IsCancelled(second.Wait())) << second.Wait();
}

TEST(CommunicatorTest, AFailedOperationFailsAllThatFollow) {
  int runs = 0;
  ScriptedCommunicator communicator(
      [&] { return ++runs == 2 ? absl::UnavailableError("the wire broke") : absl::OkStatus(); }, [] {});
  EXPECT_EQ(communicator.Broadcast(nullptr, 0, 0, "u").Wait(), absl::OkStatus());
  EXPECT_EQ(communicator.Broadcast(nullptr, 0, 0, "u").Wait(), absl::UnavailableError("the wire broke"));
  EXPECT_EQ(communicator.Broadcast(nullptr, 0, 0, "u").Wait(), absl::UnavailableError("the wire broke"));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(communicator.totals()[Operation::kBroadcast].calls, 1);
  EXPECT_EQ(communicator.progress().sequence, 3u);
  EXPECT_EQ(communicator.progress().completed, 1u);
}

TEST(CommunicatorTest, AnEmptyPendingIsComplete) { EXPECT_EQ(Communicator::Pending().Wait(), absl::OkStatus()); }

}  // namespace
}  // namespace zerofleet
