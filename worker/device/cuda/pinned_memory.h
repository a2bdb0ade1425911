// Pinned host memory of a GPU, of which the largest block is kept when it is returned.
//
// Pinning takes about a second for each 4 GiB, and offload's host arena is tens of GiB: a recovery, which makes the
// arena anew with the same size, would wait for longer than for everything else it does.
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

  // `bytes` > 0, with any contents. The kept block is taken if it has this size, and freed first if what is asked for
  // may replace it: if it is a quarter of it or more, or does not fit beside it. ResourceExhausted, naming the size,
  // when the host cannot pin it.
  absl::StatusOr<std::byte*> Take(int64_t bytes);
  // Takes back what Take gave. One block is kept, the largest.
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
