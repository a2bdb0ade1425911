// Causal attention by cuDNN's fused kernels: bf16 and fp16, head sizes that are multiples of 8.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_CUDNN_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_CUDNN_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

// Used by one thread at a time, on the GPU that was current at Create. Shapes have keys and values for each head of
// queries.
class FusedAttention {
 public:
  // `workspace` is device memory, aligned to 256 bytes, that the caller lends for the object's lifetime. kUnimplemented
  // in a build without cuDNN, FailedPrecondition where cuDNN finds no usable GPU.
  static absl::StatusOr<std::unique_ptr<FusedAttention>> Create(void* workspace, int64_t workspace_bytes);
  virtual ~FusedAttention() = default;

  // OK where cuDNN runs this shape within the workspace, otherwise the reason. On one machine the answer is always the
  // same. The first call makes the shape's plans, in about a second; later calls look them up.
  virtual absl::Status ForwardSupport(const AttentionShape& shape, DType dtype) = 0;
  virtual absl::Status BackwardSupport(const AttentionShape& shape, DType dtype) = 0;

  // As Ops::AttentionForward and AttentionBackward, where supported; delta(B,H,T) fp32 is scratch. qkv, out, dout and
  // dqkv are aligned to 16 bytes. Every call gives the same bits.
  virtual void Forward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, float* logsumexp) = 0;
  virtual void Backward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, const float* logsumexp,
                        Tensor dout, Tensor dqkv, float* delta) = 0;
};

// Sequences and heads that the backward processes at once; heads are cut only where sequences are processed one by one.
// Sizes follow from the shape and the workspace alone; null where the scores of one head do not fit.
struct BackwardSlice {
  int64_t sequences, heads;
};
std::optional<BackwardSlice> SliceBackward(const AttentionShape& shape, int64_t workspace_bytes);

// cuDNN's version number, such as 91900; 0 where the build or the machine has no cuDNN.
int64_t CudnnVersion();

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_CUDNN_H_
