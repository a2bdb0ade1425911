// See workspace.h.
#include "worker/device/cuda/workspace.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/status.h"
#include "worker/device/cuda/cuda_status.h"

namespace zerofleet::device::cuda {

absl::StatusOr<Workspace> Workspace::Create() {
  constexpr const char* kWhat = "cudaMalloc of the ops' workspace";
  Workspace workspace;
  ZF_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&workspace.library_, kLibraryBytes), kWhat));
  ZF_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&workspace.partials_, kPartialBytes), kWhat));
  return workspace;
}

Workspace::Workspace(Workspace&& other) noexcept
    : library_(std::exchange(other.library_, nullptr)), partials_(std::exchange(other.partials_, nullptr)) {}

Workspace::~Workspace() {
  cudaFree(library_);
  cudaFree(partials_);
}

}  // namespace zerofleet::device::cuda
