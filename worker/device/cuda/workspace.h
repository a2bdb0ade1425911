// Device memory that the ops share between launches: fixed reservations (constant-size buffers, ZeRO §6.2).
//
// Two parts that never overlap: workspace for cuBLASLt and cuDNN, and partial sums of our kernels. The next op
// overwrites what an op leaves there.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_WORKSPACE_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace zerofleet::device::cuda {

// Room for the scores of the heads that attention's backward takes at a time (attention_cudnn.cc): on an H100 at a
// context of 1024, with 24, 48 and 96 heads, it ran at 110, 137 and 164 TFLOP/s.
inline constexpr int64_t kLibraryBytes = int64_t{384} << 20;
inline constexpr int64_t kPartialBytes = int64_t{32} << 20;

class Workspace {
 public:
  // Allocates both parts on the current GPU.
  static absl::StatusOr<Workspace> Create();
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&&) = delete;
  ~Workspace();

  int64_t bytes() const { return kLibraryBytes + kPartialBytes; }
  void* library() const { return library_; }  // kLibraryBytes
  template <typename T>
  T* partials() const {
    return static_cast<T*>(partials_);
  }  // kPartialBytes

 private:
  Workspace() = default;
  void *library_ = nullptr, *partials_ = nullptr;
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_WORKSPACE_H_
