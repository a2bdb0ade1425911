// A stream of the CPU device: work runs at once on the caller's thread and the pool; only failures are kept.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_CPU_STREAM_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_CPU_STREAM_H_

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/device.h"

namespace zerofleet {

class CpuStream : public Stream {
 public:
  absl::Status Synchronize() override {
    absl::MutexLock lock(&mutex_);
    return std::exchange(first_failure_, absl::OkStatus());
  }

  // Keeps the first failure until the next Synchronize. Any thread of the pool may call it.
  void Record(const absl::Status& status) {
    if (status.ok()) return;
    absl::MutexLock lock(&mutex_);
    first_failure_.Update(status);
  }

 private:
  absl::Mutex mutex_;
  absl::Status first_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_CPU_STREAM_H_
