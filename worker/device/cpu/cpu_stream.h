// Streams and events of the CPU device: work runs synchronously on the caller's thread and the pool, so an event only
// holds a time.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_CPU_STREAM_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_CPU_STREAM_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "worker/device/device.h"

namespace zerofleet::device {

// Has been reached when it is created.
class CpuEvent : public Event {
 public:
  absl::StatusOr<bool> Reached() const override { return true; }
  absl::Status Wait() const override { return absl::OkStatus(); }
  double SecondsSince(const Event& earlier) const override {
    return seconds_ - static_cast<const CpuEvent&>(earlier).seconds_;
  }

 private:
  const double seconds_ = Clock::Real().MonotonicSeconds();
};

class CpuStream : public Stream {
 public:
  absl::Status Synchronize() override {
    absl::MutexLock lock(&mutex_);
    return std::exchange(first_failure_, absl::OkStatus());
  }
  absl::Status failure() const override {
    absl::MutexLock lock(&mutex_);
    return first_failure_;
  }
  std::shared_ptr<Event> Record() override { return std::make_shared<CpuEvent>(); }
  void Wait(const Event&) override {}

  // Keeps the first failure until the next Synchronize. Any thread of the pool may call it.
  void Keep(const absl::Status& status) {
    if (status.ok()) return;
    absl::MutexLock lock(&mutex_);
    first_failure_.Update(status);
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Status first_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_CPU_STREAM_H_
