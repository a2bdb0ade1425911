// Causal self-attention (ops.h): cuDNN's fused kernels where they take the shape, else the tiled ones.
//
// Which of them runs follows from shape, type and machine, never from timing, so a run's bits are the same each time.
// Both keep the same logsumexp, so forward and backward may use different ones: cuDNN's backward takes fewer shapes
// than its forward.
#include "worker/device/cuda/attention_cudnn.h"
#include "worker/device/cuda/attention_tiled.h"
#include "worker/device/cuda/cuda_ops.h"

namespace zerofleet::cuda {

void CudaOps::AttentionForward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, float* logsumexp,
                               void*) {
  if (fused_attention_ != nullptr && fused_attention_->ForwardSupport(shape, qkv.dtype).ok()) {
    fused_attention_->Forward(stream, shape, qkv, out, logsumexp);
  } else {
    TiledAttentionForward(stream, shape, qkv, out, logsumexp);
  }
}

void CudaOps::AttentionBackward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out,
                                const float* logsumexp, Tensor dout, Tensor dqkv, void* scratch) {
  float* const delta = static_cast<float*>(scratch);
  if (fused_attention_ != nullptr && fused_attention_->BackwardSupport(shape, qkv.dtype).ok()) {
    fused_attention_->Backward(stream, shape, qkv, out, logsumexp, dout, dqkv, delta);
  } else {
    TiledAttentionBackward(stream, shape, qkv, out, logsumexp, dout, dqkv, delta);
  }
}

// The backward's sums of dout * out, one per query.
int64_t CudaOps::AttentionScratchBytes(const AttentionShape& shape) const {
  return shape.batch * shape.heads * shape.time * static_cast<int64_t>(sizeof(float));
}

}  // namespace zerofleet::cuda
