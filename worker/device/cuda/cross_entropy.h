// How the output head's cross-entropy (ops.h) is cut into chunks of tokens, and the chunks' work.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CROSS_ENTROPY_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CROSS_ENTROPY_H_

#include <cstdint>

#include "worker/device/cuda/matmul.h"
#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

// Bytes of one chunk's logits. With gpt2's vocabulary in bf16 a chunk has 5000 tokens, enough to fill an H200 with
// tiles; a larger one would only take memory that activations can use.
inline constexpr int64_t kLogitsBytes = int64_t{512} << 20;

// How the scratch is cut: losses (M doubles), then logits (rows, stride) in the compute type.
struct CrossEntropyPlan {
  int64_t rows, stride, logits_at, bytes;

  CrossEntropyPlan(int64_t m, int64_t vocab, DType dtype, int64_t logits_bytes = kLogitsBytes);
};

// `arguments.scratch` is aligned to 16 bytes. Per chunk: logits = x w^T, one kernel for losses and dlogits in place,
// then dx = dlogits w and dw += dlogits^T x.
void RunCrossEntropy(Stream& stream, Matmul& matmul, const CrossEntropyPlan& plan,
                     const CrossEntropyArguments& arguments);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CROSS_ENTROPY_H_
