// See cuda_ops.h. Only what the groups of ops share is here; each group has its own file.
#include "worker/device/cuda/cuda_ops.h"

#include <utility>

#include "base/status.h"
#include "worker/device/cuda/attention_cudnn.h"
#include "worker/device/cuda/matmul.h"

namespace zerofleet::device::cuda {

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Create() {
  ZF_ASSIGN_OR_RETURN(Workspace workspace, Workspace::Create());
  std::unique_ptr<CudaOps> ops(new CudaOps(std::move(workspace)));
  ZF_ASSIGN_OR_RETURN(ops->matmul_, Matmul::Create(ops->workspace_.library(), kLibraryBytes));
  // Without fused attention the tiled kernels are used: slower, with the same semantics.
  auto fused_attention = FusedAttention::Create(ops->workspace_.library(), kLibraryBytes);
  if (fused_attention.ok())
    ops->fused_attention_ = std::move(fused_attention).value();
  else
    ops->fused_attention_refusal_ = std::string(fused_attention.status().message());
  return ops;
}

CudaOps::CudaOps(Workspace workspace) : workspace_(std::move(workspace)) {}

// Defined here, where the types that the header only declares are complete.
CudaOps::~CudaOps() = default;

}  // namespace zerofleet::device::cuda
