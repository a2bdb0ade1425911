// The vendor's libraries are always available: their host versions are linked in.
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::device::cuda {

absl::Status OpenCublasLt() { return absl::OkStatus(); }
absl::Status OpenCudnn() { return absl::FailedPreconditionError("cuDNN is not emulated"); }
absl::Status OpenNccl() { return absl::OkStatus(); }

}  // namespace zerofleet::device::cuda
