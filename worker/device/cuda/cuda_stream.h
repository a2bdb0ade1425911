// Streams and events of a GPU.
//
// A thread's CUDA calls go to the GPU that is current on that thread. Every function here, and Launch (launch.cuh),
// makes the stream's own GPU current first; code that hands a stream to a library calls MakeCurrent itself.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_STREAM_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_STREAM_H_

#include <driver_types.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/device.h"

namespace zerofleet::device::cuda {

class EventPool;

// What an event is recorded for, from the cheapest on: the GPU writes no time for the first two, and raises an
// interrupt, which wakes the waiting thread, for the last two only.
enum class EventUse : uint8_t { kOrder, kWait, kTime };
inline constexpr int kEventUses = 3;

// A point in a stream's work. CudaStream's Record functions create it; CUDA's event goes back to the stream's pool when
// the last owner releases it.
class CudaEvent : public Event {
 public:
  CudaEvent(int device, EventUse use, cudaEvent_t handle) : device_(device), use_(use), handle_(handle) {}
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  absl::StatusOr<bool> Reached() const override;
  absl::Status Wait() const override;
  // 0 if the device has failed. Both events must be for kTime.
  double SecondsSince(const Event& earlier) const override;

  // Null when CUDA could not create the event; the stream then keeps the reason, and Reached and Wait fail.
  cudaEvent_t handle() const { return handle_; }
  EventUse use() const { return use_; }

 private:
  const int device_;
  const EventUse use_;
  const cudaEvent_t handle_;
};

class CudaStream : public Stream {
 public:
  // On GPU `device` (CUDA's ordinal), which every function here makes current on its thread.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(int device, bool urgent = false);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  absl::Status Synchronize() override;
  absl::Status failure() const override;
  // These return a CudaEvent.
  std::shared_ptr<Event> Record() override { return RecordFor(EventUse::kOrder); }
  std::shared_ptr<Event> RecordToWait() override { return RecordFor(EventUse::kWait); }
  std::shared_ptr<Event> RecordTime() override { return RecordFor(EventUse::kTime); }
  void Wait(const Event& event) override;
  void* native_handle() const override { return handle_; }

  cudaStream_t handle() const { return handle_; }
  int device() const { return device_; }

  // Makes this stream's GPU current on the calling thread; a failure is kept.
  void MakeCurrent();

  // Keeps the first failure until the next Synchronize. Any thread.
  void Keep(const absl::Status& status);

 private:
  CudaStream(int device, cudaStream_t handle);
  std::shared_ptr<Event> RecordFor(EventUse use);

  const int device_;
  const cudaStream_t handle_;
  const std::shared_ptr<EventPool> events_;
  mutable absl::Mutex mutex_;
  absl::Status first_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_STREAM_H_
