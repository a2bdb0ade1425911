// Opening the vendor's libraries: cuBLASLt's and NCCL's host versions are linked in, and cuDNN is not emulated.
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::device::cuda {

absl::Status OpenCublasLt() { return absl::OkStatus(); }
absl::Status OpenCudnn() { return absl::FailedPreconditionError("cuDNN is not emulated"); }
absl::Status OpenNccl() { return absl::OkStatus(); }

}  // namespace zerofleet::device::cuda
