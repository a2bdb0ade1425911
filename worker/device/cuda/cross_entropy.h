// How the output head's cross-entropy (ops.h) is cut into chunks of tokens, and the chunks' work.
//
// Vocabularies are odd, and cuBLASLt multiplies at a fifth of its rate where an extent is: on an H100 a head of 50257
// rows ran at 0.17 of the best product, one of 50304 at 0.66. So the logits and dx are products with the rows of w and
// zeros behind them, copied once per call (a thousandth of the head's time), as far as a row of logits is padded. The
// padding's logits are 0 and stay so: they add nothing to dx. dw has no room for more rows: its last few are a product
// of their own.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CROSS_ENTROPY_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CROSS_ENTROPY_H_

#include <cstdint>

#include "worker/device/band_ops.h"
#include "worker/device/cuda/matmul.h"
#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

// Bytes of one chunk's logits. With gpt2's vocabulary in bf16 a chunk has 5000 tokens, enough to fill an H200 with
// tiles; a larger one would only take memory that activations can use.
inline constexpr int64_t kLogitsBytes = int64_t{512} << 20;

// How the scratch is cut: losses (M doubles), then logits (rows, stride) in the compute type, then, where stride is not
// V, the padded weight (stride, C).
struct CrossEntropyPlan {
  int64_t rows, stride, logits_at, weight_at, bytes;

  CrossEntropyPlan(int64_t m, int64_t c, int64_t vocab, DType dtype, int64_t logits_bytes = kLogitsBytes);
};

// Rows first to first + rows - 1 of w(V,C), of which those from V on are zeros: `w` itself where there are none of
// these, else a copy in `room`, of rows x C elements.
Tensor PaddedRows(Stream& stream, Tensor w, int64_t vocab, int64_t c, int64_t first, int64_t rows, void* room);

// dw(band.count,C) += gradient(M,band.count)^T x(M,C), where the band is rows of the V rows of the head's gradient,
// with the bits that they have in the whole.
void AddHeadGradient(Stream& stream, Matmul& matmul, const char* op, int64_t vocab, const RowBand& band, int64_t m,
                     int64_t c, const Matrix& gradient, Tensor x, float* dw);

// `arguments.scratch` is aligned to 16 bytes. Per chunk: logits = x w^T, one kernel for losses and dlogits in place,
// then dx = dlogits w and dw += dlogits^T x.
void RunCrossEntropy(Stream& stream, Matmul& matmul, const CrossEntropyPlan& plan,
                     const CrossEntropyArguments& arguments);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CROSS_ENTROPY_H_
