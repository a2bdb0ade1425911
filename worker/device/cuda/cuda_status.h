// CUDA's return codes as Status, with the name of the op that failed.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_STATUS_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_STATUS_H_

#include <driver_types.h>

#include <string_view>

#include "absl/status/status.h"

namespace zerofleet::device::cuda {

// OK for cudaSuccess. ResourceExhausted for lack of memory, FailedPrecondition for a missing device or driver, Internal
// for the rest; the message reads "<op>: <CUDA's own words> (<error name>)".
absl::Status CudaStatus(cudaError_t code, std::string_view op);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_STATUS_H_
