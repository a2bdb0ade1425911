// See cuda_status.h.
#include "worker/device/cuda/cuda_status.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"

namespace zerofleet::device::cuda {

absl::Status CudaStatus(cudaError_t code, std::string_view op) {
  if (code == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(absl::string_view(op.data(), op.size()), ": ", cudaGetErrorString(code),
                                           " (", cudaGetErrorName(code), ")");
  switch (code) {
    case cudaErrorMemoryAllocation: return absl::ResourceExhaustedError(message);
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorNoKernelImageForDevice: return absl::FailedPreconditionError(message);
    default: return absl::InternalError(message);
  }
}

}  // namespace zerofleet::device::cuda
