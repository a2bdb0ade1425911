// Linear layers (ops.h): three products on the shared matmul, and what follows them.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/matmul.h"

namespace zerofleet {

void CpuOps::LinearForward(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor bias,
                           Tensor residual, Tensor y) {
  const MatmulArguments product{
      .m = m, .n = n, .k = k, .a = {x, k}, .b = {w, k, /*transposed=*/true}, .c = {y, n}, .bias = bias};
  static_cast<CpuStream&>(stream).Keep(Matmul(pool_, product));
  if (!residual) return;
  pool_.RunBlocks(m * n, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Add(end - begin, residual.Offset(begin), y.Offset(begin), y.Offset(begin));
  });
}

void CpuOps::LinearGeluForward(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor bias,
                               Tensor before, Tensor y) {
  LinearForward(stream, m, n, k, x, w, bias, Tensor{}, before);
  GeluForward(stream, m * n, before, y);
}

void CpuOps::LinearBackwardInputGelu(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w,
                                     Tensor before, Tensor dbefore) {
  LinearBackwardInput(stream, m, n, k, dy, w, dbefore);
  pool_.RunBlocks(m * k, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::GeluGradient(end - begin, before.Offset(begin), dbefore.Offset(begin), dbefore.Offset(begin));
  });
}

void CpuOps::LinearBackwardInput(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w, Tensor dx) {
  const MatmulArguments product{.m = m, .n = k, .k = n, .a = {dy, n}, .b = {w, k}, .c = {dx, k}};
  static_cast<CpuStream&>(stream).Keep(Matmul(pool_, product));
}

void CpuOps::LinearBackwardWeight(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor x, float* dw,
                                  float* dbias) {
  const MatmulArguments product{.m = n,
                                .n = k,
                                .k = m,
                                .a = {dy, n, /*transposed=*/true},
                                .b = {x, k},
                                .c = {{dw, DType::kF32}, k},
                                .accumulate = true};
  static_cast<CpuStream&>(stream).Keep(Matmul(pool_, product));
  if (dbias == nullptr) return;
  pool_.RunBlocks(n, kernels::kColumnBlock,
                  [&](int64_t begin, int64_t end) { kernels::ColumnSums(m, n, begin, end, dy, dbias); });
}

}  // namespace zerofleet
