// attention_cudnn.h with the tiled kernels in cuDNN's place: the shapes and types that cuDNN takes, for what decides
// between the two and what prepares tensors for it.
#include "worker/device/cuda/attention_cudnn.h"

#include "base/check.h"
#include "worker/device/cuda/attention_tiled.h"

namespace zerofleet::device::cuda {
namespace {

class EmulatedAttention : public FusedAttention {
 public:
  absl::Status ForwardSupport(const AttentionShape& shape, DType dtype) override {
    ZF_CHECK(shape.kv_heads == shape.heads);
    if (dtype == DType::kF32) return absl::UnimplementedError("fused attention does not take fp32");
    if (shape.head_size % 8 != 0) return absl::UnimplementedError("head sizes are multiples of 8");
    return absl::OkStatus();
  }
  absl::Status BackwardSupport(const AttentionShape& shape, DType dtype) override {
    if (shape.time == 1) return absl::UnimplementedError("no backward for sequences of 1");
    return ForwardSupport(shape, dtype);
  }

  void Forward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, float* logsumexp) override {
    ZF_CHECK(shape.kv_heads == shape.heads);
    TiledAttentionForward(stream, shape, qkv, out, logsumexp);
  }
  void Backward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, const float* logsumexp,
                Tensor dout, Tensor dqkv, float* delta) override {
    ZF_CHECK(shape.kv_heads == shape.heads);
    TiledAttentionBackward(stream, shape, qkv, out, logsumexp, dout, dqkv, delta);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<FusedAttention>> FusedAttention::Create(void*, int64_t) {
  return std::make_unique<EmulatedAttention>();
}

int64_t CudnnVersion() { return 0; }

}  // namespace zerofleet::device::cuda
