// attention_cudnn.h with the tiled kernels in cuDNN's place: the shapes and types that cuDNN takes, for what decides
// between the two and what prepares tensors for it.
#include "worker/device/cuda/attention_cudnn.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/device/cuda/attention_tiled.h"
#include "worker/device/cuda/emulation/launch_log.h"

namespace zerofleet::device::cuda {
namespace {

// `products` over all pairs of a query and a key that it sees, and tensors of the output's size read and written.
emulation::LoggedLaunch LaunchOf(const char* what, const AttentionShape& s, DType dtype, int products, int64_t read,
                                 int64_t written) {
  const int64_t tokens = s.batch * s.time, width = s.heads * s.head_size;
  const double pairs = 0.5 * static_cast<double>(tokens) * static_cast<double>(s.time);
  return {.what = what,
          .shape = absl::StrCat(s.batch, " ", s.heads, " ", s.time, " ", s.head_size, " ", DTypeName(dtype)),
          .flops = products * 2.0 * pairs * static_cast<double>(width),
          .bytes_read = read * tokens * width * DTypeBytes(dtype),
          .bytes_written = written * tokens * width * DTypeBytes(dtype)};
}

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
    // Reads q, k and v, writes the output.
    if (emulation::LogCall(LaunchOf("cudnnAttentionForward", shape, qkv.dtype, 2, 3, 1))) return;
    const emulation::WithinCall within;
    TiledAttentionForward(stream, shape, qkv, out, logsumexp);
  }
  void Backward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, const float* logsumexp,
                Tensor dout, Tensor dqkv, float* delta) override {
    ZF_CHECK(shape.kv_heads == shape.heads);
    // Reads also the output and its gradient, writes the gradients of q, k and v.
    if (emulation::LogCall(LaunchOf("cudnnAttentionBackward", shape, qkv.dtype, 5, 5, 3))) return;
    const emulation::WithinCall within;
    TiledAttentionBackward(stream, shape, qkv, out, logsumexp, dout, dqkv, delta);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<FusedAttention>> FusedAttention::Create(void*, int64_t) {
  return std::make_unique<EmulatedAttention>();
}

int64_t CudnnVersion() { return 0; }

}  // namespace zerofleet::device::cuda
