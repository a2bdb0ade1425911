// See pinned_memory.h.
#include "worker/device/cuda/pinned_memory.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/device/cuda/cuda_status.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int64_t kReplaces = 4;  // a block of at least 1/kReplaces of the kept one's size replaces it

}  // namespace

PinnedMemory::~PinnedMemory() {
  absl::MutexLock lock(&mutex_);
  Free(kept_);
}

void PinnedMemory::Free(Block& block) {
  if (block.data == nullptr) return;
  cudaSetDevice(ordinal_);
  cudaFreeHost(block.data);
  block = {};
}

absl::StatusOr<std::byte*> PinnedMemory::Take(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (kept_.bytes == bytes) return std::exchange(kept_, {}).data;
  if (bytes >= kept_.bytes / kReplaces) Free(kept_);
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal_), "cudaSetDevice"));
  while (true) {
    void* data = nullptr;
    const cudaError_t code = cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocPortable);
    if (code != cudaErrorMemoryAllocation) {
      ZF_RETURN_IF_ERROR(CudaStatus(code, "cudaHostAlloc"));
      return static_cast<std::byte*>(data);
    }
    cudaGetLastError();
    if (kept_.data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the host cannot pin ", HumanBytes(bytes), " for the cuda device"));
    }
    Free(kept_);
  }
}

void PinnedMemory::Return(std::byte* data, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  Block returned{data, bytes};
  if (returned.bytes > kept_.bytes) std::swap(returned, kept_);
  Free(returned);
}

}  // namespace zerofleet::device::cuda
