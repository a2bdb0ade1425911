// See cuda_stream.h.
#include "worker/device/cuda/cuda_stream.h"

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "worker/device/cuda/cuda_status.h"

namespace zerofleet::device::cuda {

namespace {

// A blocking event lets waiting threads sleep: other ranks and data loading need the host's cores too.
unsigned FlagsOf(EventUse use) {
  switch (use) {
    case EventUse::kOrder: return cudaEventDisableTiming;
    case EventUse::kWait: return cudaEventDisableTiming | cudaEventBlockingSync;
    case EventUse::kTime: return cudaEventBlockingSync;
  }
  return cudaEventBlockingSync;
}

}  // namespace

// One stream's events that are free for reuse, by use. Creating an event takes the driver's lock and some microseconds;
// a training step records dozens. Any thread may be the last to release one.
class EventPool {
 public:
  explicit EventPool(int device) : device_(device) {}

  // A free event for this use, or a new one.
  absl::StatusOr<std::unique_ptr<CudaEvent>> Take(EventUse use) {
    {
      absl::MutexLock lock(&mutex_);
      auto& free = free_[static_cast<size_t>(use)];
      if (!free.empty()) {
        auto event = std::move(free.back());
        free.pop_back();
        return event;
      }
    }
    cudaEvent_t handle = nullptr;
    ZF_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&handle, FlagsOf(use)), "cudaEventCreate"));
    return std::make_unique<CudaEvent>(device_, use, handle);
  }

  void Give(std::unique_ptr<CudaEvent> event) {
    absl::MutexLock lock(&mutex_);
    free_[static_cast<size_t>(event->use())].push_back(std::move(event));
  }

 private:
  const int device_;
  absl::Mutex mutex_;
  std::array<std::vector<std::unique_ptr<CudaEvent>>, kEventUses> free_ ABSL_GUARDED_BY(mutex_);
};

CudaEvent::~CudaEvent() {
  if (handle_ == nullptr) return;
  cudaSetDevice(device_);
  cudaEventDestroy(handle_);
}

absl::StatusOr<bool> CudaEvent::Reached() const {
  if (handle_ == nullptr) return absl::InternalError("an event that could not be made");
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
  const cudaError_t code = cudaEventQuery(handle_);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // or the next launch on this thread would be blamed for it
    return false;
  }
  ZF_RETURN_IF_ERROR(CudaStatus(code, "cudaEventQuery"));
  return true;
}

absl::Status CudaEvent::Wait() const {
  if (handle_ == nullptr) return absl::InternalError("an event that could not be made");
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
  return CudaStatus(cudaEventSynchronize(handle_), "cudaEventSynchronize");
}

double CudaEvent::SecondsSince(const Event& earlier) const {
  float milliseconds = 0;
  // Without times CUDA refuses both events, and every figure would quietly be 0.
  ZF_CHECK(use_ == EventUse::kTime);
  ZF_CHECK(static_cast<const CudaEvent&>(earlier).use() == EventUse::kTime);
  const cudaEvent_t begin = static_cast<const CudaEvent&>(earlier).handle();
  if (begin == nullptr || handle_ == nullptr || cudaSetDevice(device_) != cudaSuccess) return 0;
  if (cudaEventElapsedTime(&milliseconds, begin, handle_) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return milliseconds * 1e-3;
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(int device, bool urgent) {
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device), "cudaSetDevice"));
  int least = 0, greatest = 0;
  ZF_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange"));
  cudaStream_t handle = nullptr;
  // Non-blocking streams are not ordered with the legacy default stream, which libraries may use without our knowledge.
  ZF_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, urgent ? greatest : least),
                                "cudaStreamCreate"));
  return std::unique_ptr<CudaStream>(new CudaStream(device, handle));
}

CudaStream::CudaStream(int device, cudaStream_t handle)
    : device_(device), handle_(handle), events_(std::make_shared<EventPool>(device)) {}

CudaStream::~CudaStream() {
  cudaSetDevice(device_);
  cudaStreamDestroy(handle_);  // returns at once; the device still finishes what is enqueued
}

absl::Status CudaStream::Synchronize() {
  MakeCurrent();
  Keep(CudaStatus(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"));
  absl::MutexLock lock(&mutex_);
  return std::exchange(first_failure_, absl::OkStatus());
}

absl::Status CudaStream::failure() const {
  {
    absl::MutexLock lock(&mutex_);
    if (!first_failure_.ok()) return first_failure_;
  }
  // Finds a kernel that failed on the device, without waiting.
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
  const cudaError_t code = cudaStreamQuery(handle_);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();
    return absl::OkStatus();
  }
  return CudaStatus(code, "cudaStreamQuery");
}

std::shared_ptr<Event> CudaStream::RecordFor(EventUse use) {
  MakeCurrent();
  auto taken = events_->Take(use);
  if (!taken.ok()) {
    Keep(taken.status());
    return std::make_shared<CudaEvent>(device_, use, nullptr);
  }
  CudaEvent* const event = taken->release();
  Keep(CudaStatus(cudaEventRecord(event->handle(), handle_), "cudaEventRecord"));
  // An event may be recorded again while other streams still wait for its previous recording, which their wait
  // captured.
  return std::shared_ptr<Event>(
      event, [pool = events_](Event* done) { pool->Give(std::unique_ptr<CudaEvent>(static_cast<CudaEvent*>(done))); });
}

void CudaStream::Wait(const Event& event) {
  MakeCurrent();
  Keep(CudaStatus(cudaStreamWaitEvent(handle_, static_cast<const CudaEvent&>(event).handle(), 0),
                  "cudaStreamWaitEvent"));
}

void CudaStream::MakeCurrent() { Keep(CudaStatus(cudaSetDevice(device_), "cudaSetDevice")); }

void CudaStream::Keep(const absl::Status& status) {
  if (status.ok()) return;
  absl::MutexLock lock(&mutex_);
  first_failure_.Update(status);
}

}  // namespace zerofleet::device::cuda
