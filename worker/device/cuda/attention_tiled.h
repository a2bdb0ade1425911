// Causal attention by our own kernels, for the shapes and types that cuDNN's fused attention does not support, for
// sequences of several documents, and to check it against: any T, any head size up to kMaxHeadSize, fp32, bf16 and
// fp16.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_TILED_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_TILED_H_

#include <cstdint>

#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

inline constexpr int64_t kMaxHeadSize = 256;

// Shapes as in ops.h: out(B,T,HD) and logsumexp(B,H,T) from qkv(B,T,(H+2G)D); starts(B,T) may be null.
void TiledAttentionForward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, float* logsumexp,
                           const int32_t* starts = nullptr);

// dqkv(B,T,(H+2G)D) overwritten; delta(B,H,T) fp32 is scratch.
void TiledAttentionBackward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, const float* logsumexp,
                            Tensor dout, Tensor dqkv, float* delta, const int32_t* starts = nullptr);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_TILED_H_
