// The queue and the book-keeping, on a backend that only runs what the test tells it to.
#include "worker/collective/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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
  using Communicator::CountSeconds;
  using Communicator::Issued;

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

// Reached when the test says so.
class ManualEvent : public Event {
 public:
  absl::StatusOr<bool> Reached() const override {
    looks++;
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    return reached_;
  }
  absl::Status Wait() const override { return absl::InternalError("nobody waits for it but by looking"); }
  double SecondsSince(const Event&) const override { return 0; }
  void Reach() {
    absl::MutexLock lock(&mutex_);
    reached_ = true;
  }
  void Fail(absl::Status failure) {
    absl::MutexLock lock(&mutex_);
    failure_ = std::move(failure);
  }
  void AwaitLooks(int count) const {
    while (looks < count) std::this_thread::yield();
  }

  mutable std::atomic<int> looks = 0;

 private:
  mutable absl::Mutex mutex_;
  bool reached_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// Keeps what it was told to wait for.
class RecordingStream : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status failure() const override { return absl::OkStatus(); }
  std::shared_ptr<Event> Record() override { return std::make_shared<ManualEvent>(); }
  void Wait(const Event& event) override { waited_for.push_back(&event); }

  std::vector<const Event*> waited_for;
};

TEST(CommunicatorTest, AnOperationRunsAfterItsInputs) {
  std::atomic<int> runs = 0;
  ScriptedCommunicator communicator([&] { return runs++, absl::OkStatus(); }, [] {});
  const auto after = std::make_shared<ManualEvent>();
  const auto pending = communicator.Broadcast(nullptr, 0, 0, "u", after);
  after->AwaitLooks(3);
  EXPECT_EQ(runs, 0);
  after->Reach();
  EXPECT_EQ(pending.Wait(), absl::OkStatus());
  EXPECT_EQ(runs, 1);
}

TEST(CommunicatorTest, AbortEndsTheWaitForInputs) {
  ScriptedCommunicator communicator([] { return absl::OkStatus(); }, [] {});
  const auto never = std::make_shared<ManualEvent>();
  const auto pending = communicator.ReduceScatter(nullptr, DType::kF32, nullptr, DType::kF32, 0, "u", never);
  never->AwaitLooks(1);
  communicator.Abort(absl::UnavailableError("a rank is gone"));
  EXPECT_EQ(pending.Wait(), absl::UnavailableError("a rank is gone"));
}

TEST(CommunicatorTest, InputsThatFailFailTheOperationAndAllThatFollow) {
  int runs = 0;
  ScriptedCommunicator communicator([&] { return runs++, absl::OkStatus(); }, [] {});
  const auto after = std::make_shared<ManualEvent>();
  after->Fail(absl::InternalError("the device failed"));
  EXPECT_EQ(communicator.AllReduce(nullptr, 0, DType::kF32, "u", after).Wait(),
            absl::InternalError("the device failed"));
  EXPECT_EQ(communicator.AllGather(nullptr, nullptr, 0, DType::kF32, "u").Wait(),
            absl::InternalError("the device failed"));
  EXPECT_EQ(runs, 0);
}

// An operation on the device: the stream is ordered behind it while it is still running.
TEST(CommunicatorTest, OrderReturnsWhenTheOperationIsIssued) {
  absl::Notification finish;
  const auto done = std::make_shared<ManualEvent>();
  ScriptedCommunicator* issuer = nullptr;
  ScriptedCommunicator communicator(
      [&] {
        issuer->Issued(done);
        finish.WaitForNotification();
        issuer->CountSeconds(7.5);
        return absl::UnavailableError("a later failure");
      },
      [] {});
  issuer = &communicator;
  const auto pending = communicator.Broadcast(nullptr, 0, 0, "u");
  RecordingStream stream;
  EXPECT_EQ(pending.Order(stream), absl::OkStatus());
  EXPECT_EQ(stream.waited_for, std::vector<const Event*>{done.get()});
  EXPECT_EQ(communicator.progress().completed, 0u);
  finish.Notify();
  EXPECT_EQ(pending.Wait(), absl::UnavailableError("a later failure"));
  EXPECT_EQ(pending.Order(stream), absl::UnavailableError("a later failure"));
}

// An operation on the host: nothing is left to wait for on the device.
TEST(CommunicatorTest, OrderWaitsForAnOperationThatCompletesOnTheHost) {
  ScriptedCommunicator* counter = nullptr;
  ScriptedCommunicator communicator([&] { return counter->CountSeconds(7.5), absl::OkStatus(); }, [] {});
  counter = &communicator;
  RecordingStream stream;
  EXPECT_EQ(communicator.Broadcast(nullptr, 0, 0, "u").Order(stream), absl::OkStatus());
  EXPECT_EQ(communicator.totals()[Operation::kBroadcast].seconds, 7.5);
  communicator.Abort(absl::UnavailableError("a rank is gone"));
  EXPECT_EQ(communicator.Broadcast(nullptr, 0, 0, "u").Order(stream), absl::UnavailableError("a rank is gone"));
  EXPECT_EQ(Communicator::Pending().Order(stream), absl::OkStatus());
  EXPECT_TRUE(stream.waited_for.empty());
}

}  // namespace
}  // namespace zerofleet
