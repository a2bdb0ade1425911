// The queue and the book-keeping, on a backend that runs only the functions that the test gives it.
#include "worker/collective/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"

namespace zerofleet::collective {
namespace {

class ScriptedCommunicator : public Communicator {
 public:
  ScriptedCommunicator(std::function<absl::Status()> run, std::function<void()> wake, bool on_device = false)
      : Communicator("data", Topology(0, 1)), run_(std::move(run)), wake_(std::move(wake)), on_device_(on_device) {
    StartThread();
  }
  ~ScriptedCommunicator() override { StopThread(); }
  std::string backend() const override { return "scripted"; }
  using Communicator::Issued;

  std::atomic<int> abandoned = 0;

 protected:
  absl::Status AwaitInputs(const device::Event& after) override {
    return on_device_ ? absl::OkStatus() : Communicator::AwaitInputs(after);
  }
  void Abandon() override { abandoned++; }
  absl::Status RunAllGather(const void*, void*, int64_t, int64_t) override { return run_(); }
  absl::Status RunReduceScatter(device::Tensor, device::Tensor, int64_t, const SumChain&) override { return run_(); }
  void Wake() override { wake_(); }

 private:
  const std::function<absl::Status()> run_;
  const std::function<void()> wake_;
  const bool on_device_;
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
  const auto first = communicator->AllGatherBytes(nullptr, nullptr, 0, "first");
  entered.WaitForNotification();
  const auto second = communicator->AllGatherBytes(nullptr, nullptr, 0, "second");
  communicator.reset();
  EXPECT_EQ(first.Wait(), absl::OkStatus());
  EXPECT_TRUE(absl::IsCancelled(second.Wait())) << second.Wait();
}

TEST(CommunicatorTest, AFailedOperationFailsAllThatFollow) {
  int runs = 0;
  ScriptedCommunicator communicator(
      [&] { return ++runs == 2 ? absl::UnavailableError("the wire broke") : absl::OkStatus(); }, [] {});
  EXPECT_EQ(communicator.AllGatherBytes(nullptr, nullptr, 0, "u").Wait(), absl::OkStatus());
  EXPECT_EQ(communicator.AllGatherBytes(nullptr, nullptr, 0, "u").Wait(), absl::UnavailableError("the wire broke"));
  EXPECT_EQ(communicator.AllGatherBytes(nullptr, nullptr, 0, "u").Wait(), absl::UnavailableError("the wire broke"));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(communicator.totals()[Operation::kAllGather].calls, 1);
  EXPECT_EQ(communicator.progress().sequence, 2u);
  EXPECT_EQ(communicator.progress().completed, 1u);
  EXPECT_EQ(communicator.abandoned, 1);
}

TEST(CommunicatorTest, AnEmptyPendingIsComplete) { EXPECT_EQ(Communicator::Pending().Wait(), absl::OkStatus()); }

// Reached when the test says so.
class ManualEvent : public device::Event {
 public:
  absl::StatusOr<bool> Reached() const override {
    looks++;
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    return reached_;
  }
  absl::Status Wait() const override { return absl::InternalError("nobody waits for it but by looking"); }
  double SecondsSince(const device::Event&) const override { return 7.5; }
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

// Records the events that it was told to wait for.
class RecordingStream : public device::Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status failure() const override { return absl::OkStatus(); }
  std::shared_ptr<device::Event> Record() override { return std::make_shared<ManualEvent>(); }
  void Wait(const device::Event& event) override { waited_for.push_back(&event); }

  std::vector<const device::Event*> waited_for;
};

TEST(CommunicatorTest, AnOperationRunsAfterItsInputs) {
  std::atomic<int> runs = 0;
  ScriptedCommunicator communicator([&] { return runs++, absl::OkStatus(); }, [] {});
  const auto after = std::make_shared<ManualEvent>();
  const auto pending = communicator.AllGatherBytes(nullptr, nullptr, 0, "u", after);
  after->AwaitLooks(3);
  EXPECT_EQ(runs, 0);
  after->Reach();
  EXPECT_EQ(pending.Wait(), absl::OkStatus());
  EXPECT_EQ(runs, 1);
}

TEST(CommunicatorTest, AbortEndsTheWaitForInputs) {
  ScriptedCommunicator communicator([] { return absl::OkStatus(); }, [] {});
  const auto never = std::make_shared<ManualEvent>();
  const auto pending = communicator.ReduceScatter({}, {}, 0, "u", never);
  never->AwaitLooks(1);
  communicator.Abort(absl::UnavailableError("a rank is gone"));
  EXPECT_EQ(pending.Wait(), absl::UnavailableError("a rank is gone"));
}

TEST(CommunicatorTest, InputsThatFailFailTheOperationAndAllThatFollow) {
  int runs = 0;
  ScriptedCommunicator communicator([&] { return runs++, absl::OkStatus(); }, [] {});
  const auto after = std::make_shared<ManualEvent>();
  after->Fail(absl::InternalError("the device failed"));
  EXPECT_EQ(communicator.AllReduce({}, 0, "u", after).Wait(), absl::InternalError("the device failed"));
  EXPECT_EQ(communicator.AllGather({}, {}, 0, "u").Wait(), absl::InternalError("the device failed"));
  EXPECT_EQ(runs, 0);
}

// A backend on a device: every operation is issued at once and ends with its event.
class DeviceGroup {
 public:
  explicit DeviceGroup(std::vector<std::shared_ptr<ManualEvent>> ends) : ends_(std::move(ends)) {}

  Communicator::Pending Post(const std::string& unit, std::shared_ptr<device::Event> after = nullptr) {
    return communicator.AllGatherBytes(nullptr, nullptr, 0, unit, std::move(after));
  }
  void AwaitIssued(int count) const {
    while (issued_ < count) std::this_thread::yield();
  }

 private:
  const std::vector<std::shared_ptr<ManualEvent>> ends_;
  std::atomic<int> issued_ = 0;

 public:
  // Declared last, since its thread uses the other members.
  ScriptedCommunicator communicator{[this] {
                                      communicator.Issued(std::make_shared<ManualEvent>(), ends_[issued_]);
                                      issued_++;
                                      return absl::OkStatus();
                                    },
                                    [] {}, /*on_device=*/true};
};

// Posts `count` operations and makes the stream wait for each as it is issued.
std::vector<Communicator::Pending> PostInOrder(DeviceGroup& group, int count, device::Stream& stream) {
  std::vector<Communicator::Pending> pending;
  for (int i = 0; i < count; i++) {
    pending.push_back(group.Post("u"));
    EXPECT_EQ(pending[i].MakeStreamWait(stream), absl::OkStatus());
  }
  return pending;
}

std::vector<std::shared_ptr<ManualEvent>> ManualEvents(int count) {
  std::vector<std::shared_ptr<ManualEvent>> events;
  for (int i = 0; i < count; i++) events.push_back(std::make_shared<ManualEvent>());
  return events;
}

// The stream waits for operations that are still running, one after another.
TEST(CommunicatorTest, OperationsOnTheDeviceAreIssuedWithoutWaitingForEachOther) {
  const auto ends = ManualEvents(3);
  DeviceGroup group(ends);
  RecordingStream stream;
  const auto pending = PostInOrder(group, 3, stream);
  EXPECT_EQ(stream.waited_for, (std::vector<const device::Event*>{ends[0].get(), ends[1].get(), ends[2].get()}));
  EXPECT_EQ(group.communicator.progress().completed, 0u);
  for (const auto& end : ends) end->Reach();
  for (const auto& one : pending) EXPECT_EQ(one.Wait(), absl::OkStatus());
  EXPECT_EQ(group.communicator.totals()[Operation::kAllGather].seconds, 3 * 7.5);
  EXPECT_EQ(group.communicator.abandoned, 0);
}

TEST(CommunicatorTest, AFailureOnTheDeviceFailsAllThatWasIssued) {
  const auto ends = ManualEvents(3);
  DeviceGroup group(ends);
  RecordingStream stream;
  const auto pending = PostInOrder(group, 3, stream);
  ends[0]->Reach();
  EXPECT_EQ(pending[0].Wait(), absl::OkStatus());
  ends[1]->Fail(absl::InternalError("the device failed"));
  EXPECT_EQ(pending[1].Wait(), absl::InternalError("the device failed"));
  EXPECT_EQ(pending[2].Wait(), absl::InternalError("the device failed"));
  EXPECT_EQ(pending[2].MakeStreamWait(stream), absl::InternalError("the device failed"));
  EXPECT_EQ(group.communicator.abandoned, 1);
}

TEST(CommunicatorTest, AbortEndsWhatWasIssued) {
  DeviceGroup group(ManualEvents(1));
  const auto pending = group.Post("u");
  group.AwaitIssued(1);
  group.communicator.Abort(absl::UnavailableError("a rank is gone"));
  EXPECT_EQ(pending.Wait(), absl::UnavailableError("a rank is gone"));
  EXPECT_EQ(group.communicator.abandoned, 1);
}

TEST(CommunicatorTest, DestructionSeesWhatWasIssuedToItsEnd) {
  const auto ends = ManualEvents(1);
  auto group = std::make_unique<DeviceGroup>(ends);
  const auto pending = group->Post("u");
  group->AwaitIssued(1);
  std::thread finisher([&] {
    ends[0]->AwaitLooks(ends[0]->looks + 3);
    ends[0]->Reach();
  });
  group.reset();
  finisher.join();
  EXPECT_EQ(pending.Wait(), absl::OkStatus());
}

// A rank has arrived at an operation when all before it are complete and its inputs are there: a device that hangs
// before that leaves the rank behind, although the host has issued everything.
TEST(CommunicatorTest, ProgressCountsWhereTheDeviceHasArrived) {
  const auto ends = ManualEvents(2), inputs = ManualEvents(2);
  DeviceGroup group(ends);
  const auto first = group.Post("first", inputs[0]), second = group.Post("second", inputs[1]);
  group.AwaitIssued(2);
  inputs[0]->AwaitLooks(3);
  EXPECT_EQ(group.communicator.progress().sequence, 0u);
  inputs[0]->Reach();
  inputs[1]->Reach();
  ends[0]->AwaitLooks(ends[0]->looks + 2);
  EXPECT_EQ(group.communicator.progress().sequence, 1u);
  EXPECT_EQ(group.communicator.progress().unit, "first");
  ends[0]->Reach();
  ends[1]->AwaitLooks(2);
  EXPECT_EQ(group.communicator.progress().sequence, 2u);
  EXPECT_EQ(group.communicator.progress().unit, "second");
  ends[1]->Reach();
  EXPECT_EQ(second.Wait(), absl::OkStatus());
  EXPECT_EQ(group.communicator.progress().completed, 2u);
}

// After an operation on the host, the stream has nothing to wait for.
TEST(CommunicatorTest, OrderWaitsForAnOperationThatCompletesOnTheHost) {
  ScriptedCommunicator communicator([] { return absl::OkStatus(); }, [] {});
  RecordingStream stream;
  EXPECT_EQ(communicator.AllGatherBytes(nullptr, nullptr, 0, "u").MakeStreamWait(stream), absl::OkStatus());
  EXPECT_EQ(communicator.totals()[Operation::kAllGather].calls, 1);
  communicator.Abort(absl::UnavailableError("a rank is gone"));
  EXPECT_EQ(communicator.AllGatherBytes(nullptr, nullptr, 0, "u").MakeStreamWait(stream),
            absl::UnavailableError("a rank is gone"));
  EXPECT_EQ(Communicator::Pending().MakeStreamWait(stream), absl::OkStatus());
  EXPECT_TRUE(stream.waited_for.empty());
}

}  // namespace
}  // namespace zerofleet::collective
