// Causal self-attention (ops.h): cuDNN's fused kernels where they support the shape, else the tiled ones.
//
// Which of them runs follows from shape, type and machine, never from timing, so every run gives the same bits. Both
// keep the same logsumexp, so forward and backward may use different kernels: cuDNN's backward supports fewer shapes
// than its forward.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/device/cuda/attention_cudnn.h"
#include "worker/device/cuda/attention_tiled.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/cuda_stream.h"

namespace zerofleet::device::cuda {

namespace {

constexpr char kForward[] = "AttentionForward", kBackward[] = "AttentionBackward";

}  // namespace

// A full GPU is a failure of the stream, and no reason for the tiled kernels: another rank, or the next run, might have
// the memory and compute other bits.
bool CudaOps::UsesFusedAttention(Stream& stream, const char* op, const AttentionShape& shape, DType dtype) {
  absl::Status support = absl::UnimplementedError(fused_attention_refusal_);
  if (fused_attention_ != nullptr) {
    support = op == kForward ? fused_attention_->ForwardSupport(shape, dtype)
                             : fused_attention_->BackwardSupport(shape, dtype);
  }
  if (support.ok()) return true;
  if (absl::IsResourceExhausted(support)) static_cast<CudaStream&>(stream).Keep(Annotate(support, op));
  refused_shapes_.Note({op,
                        absl::StrCat(DTypeName(dtype), ", ", shape.batch, " x ", shape.heads, " heads x ", shape.time,
                                     " x ", shape.head_size),
                        std::string(support.message())});
  return false;
}

void CudaOps::AttentionForward(Stream& stream, const AttentionForwardArguments& p) {
  if (UsesFusedAttention(stream, kForward, p.shape, p.qkv.dtype)) {
    fused_attention_->Forward(stream, p.shape, p.qkv, p.out, p.logsumexp);
  } else {
    TiledAttentionForward(stream, p.shape, p.qkv, p.out, p.logsumexp);
  }
}

void CudaOps::AttentionBackward(Stream& stream, const AttentionBackwardArguments& p) {
  float* const delta = static_cast<float*>(p.scratch);
  if (UsesFusedAttention(stream, kBackward, p.shape, p.qkv.dtype)) {
    fused_attention_->Backward(stream, p.shape, p.qkv, p.out, p.logsumexp, p.dout, p.dqkv, delta);
  } else {
    TiledAttentionBackward(stream, p.shape, p.qkv, p.out, p.logsumexp, p.dout, p.dqkv, delta);
  }
}

// Room for the backward's sums of dout * out, one per query.
int64_t CudaOps::AttentionScratchBytes(const AttentionShape& shape) const {
  return shape.batch * shape.heads * shape.time * static_cast<int64_t>(sizeof(float));
}

}  // namespace zerofleet::device::cuda
