// Pinned host memory for a GPU. The largest returned block is kept for reuse.
//
// Pinning takes about a second for each 4 GiB, and offload's host arena is tens of GiB: for a recovery, which reserves
// an arena of the same size again, pinning would take longer than everything else it does.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_PINNED_MEMORY_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_PINNED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace zerofleet::device::cuda {

// Thread-safe.
class PinnedMemory {
 public:
  explicit PinnedMemory(int ordinal) : ordinal_(ordinal) {}  // CUDA's number of the GPU
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // `bytes` (> 0) of memory with any contents. Returns the kept block if it has this size. Otherwise frees the kept
  // block first if `bytes` is at least a quarter of its size, or if both do not fit. ResourceExhausted, naming the
  // size, when the host cannot pin `bytes`.
  absl::StatusOr<std::byte*> Take(int64_t bytes);
  // Takes back a block that Take returned. Keeps the larger of it and the kept block, and frees the other.
  void Return(std::byte* data, int64_t bytes);

 private:
  struct Block {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  void Free(Block& block);

  const int ordinal_;
  absl::Mutex mutex_;
  Block kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_PINNED_MEMORY_H_
