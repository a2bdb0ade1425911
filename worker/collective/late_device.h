// A device for tests, in host memory, that does everything as late as it may: what is enqueued on a stream runs only
// when the stream is synchronized, an event is waited for, or an event has been polled a few times. So a missing wait
// changes the result. Like a GPU, it reports that the host cannot address its memory.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_LATE_DEVICE_H_
#define ZEROFLEET_WORKER_COLLECTIVE_LATE_DEVICE_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/device.h"

namespace zerofleet::collective {

// The queue that a stream shares with its events.
class LateQueue {
 public:
  void Add(std::function<void()> work) {
    absl::MutexLock lock(&mutex_);
    work_.push_back(std::move(work));
  }
  int64_t end() {
    absl::MutexLock lock(&mutex_);
    return done_ + static_cast<int64_t>(work_.size());
  }
  bool HasReached(int64_t place) {
    absl::MutexLock lock(&mutex_);
    return done_ >= place;
  }
  void RunTo(int64_t place) {
    absl::MutexLock lock(&mutex_);
    for (; done_ < place; done_++) {
      work_.front()();
      work_.pop_front();
    }
  }

 private:
  absl::Mutex mutex_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

class LateEvent : public device::Event {
 public:
  LateEvent(std::shared_ptr<LateQueue> queue, int64_t place) : queue_(std::move(queue)), place_(place) {}
  absl::StatusOr<bool> Reached() const override {
    if (++looks_ >= kLooks) queue_->RunTo(place_);
    return queue_->HasReached(place_);
  }
  absl::Status Wait() const override {
    queue_->RunTo(place_);
    return absl::OkStatus();
  }
  double SecondsSince(const device::Event&) const override { return 0; }

 private:
  static constexpr int kLooks = 3;
  const std::shared_ptr<LateQueue> queue_;
  const int64_t place_;
  mutable std::atomic<int> looks_ = 0;
};

class LateStream : public device::Stream {
 public:
  absl::Status Synchronize() override {
    queue_->RunTo(queue_->end());
    return absl::OkStatus();
  }
  absl::Status failure() const override { return absl::OkStatus(); }
  std::shared_ptr<device::Event> Record() override { return std::make_shared<LateEvent>(queue_, queue_->end()); }
  // The event must outlive the work, which in these tests it does.
  void Wait(const device::Event& event) override {
    queue_->Add([&event] { ZF_CHECK(event.Wait().ok()); });
  }
  void Add(std::function<void()> work) { queue_->Add(std::move(work)); }

 private:
  const std::shared_ptr<LateQueue> queue_ = std::make_shared<LateQueue>();
};

class LateDevice : public device::Device {
 public:
  explicit LateDevice(std::string unique_id = "late") : unique_id_(std::move(unique_id)) {}

  std::string kind() const override { return "late"; }
  std::string description() const override { return "a device for tests"; }
  std::string unique_id() const override { return unique_id_; }
  absl::StatusOr<std::unique_ptr<device::Reservation>> Reserve(int64_t bytes) override {
    return memory_.Reserve(bytes);
  }
  absl::StatusOr<std::unique_ptr<device::Reservation>> ReserveHost(int64_t bytes) override {
    if (bytes > most_host_bytes) return absl::ResourceExhaustedError("the host cannot pin so much");
    return memory_.Reserve(bytes);
  }
  absl::StatusOr<std::unique_ptr<device::Stream>> CreateStream() override { return std::make_unique<LateStream>(); }
  void Copy(device::Stream& stream, void* to, const void* from, int64_t bytes) override {
    static_cast<LateStream&>(stream).Add([=] { std::memmove(to, from, bytes); });
  }
  bool host_addressable() const override { return false; }
  double datasheet_flops(device::DType) const override { return 0; }
  std::optional<device::DeviceMemory> memory() const override { return std::nullopt; }
  device::Ops& ops() override { return memory_.ops(); }
  device::Device& host() override { return memory_; }

  int64_t most_host_bytes = int64_t{1} << 40;

 private:
  const std::string unique_id_;
  device::CpuDevice memory_{1};
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_LATE_DEVICE_H_
