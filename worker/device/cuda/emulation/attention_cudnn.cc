// attention_cudnn.h in a build without cuDNN, where the tiled kernels are used for every shape.
#include "worker/device/cuda/attention_cudnn.h"

namespace zerofleet::device::cuda {

absl::StatusOr<std::unique_ptr<FusedAttention>> FusedAttention::Create(void*, int64_t) {
  return absl::UnimplementedError("this build runs kernels on the host, without cuDNN");
}

int64_t CudnnVersion() { return 0; }

}  // namespace zerofleet::device::cuda
