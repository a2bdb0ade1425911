// Linear layers (ops.h): three products on the shared matmul, and the bias, residual and GELU after them. A product
// with one row of x reads the weight once, so memory bandwidth limits it.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/matmul.h"
#include "worker/device/cpu/row_sums.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kVectorRows = 64;  // rows of the weight per task, in a product with one row of x

// Computes elements [begin, end) of y = w x + bias; end - begin <= kVectorRows.
void VectorProduct(const LinearForwardArguments& p, int64_t begin, int64_t end) {
  const int64_t rows = end - begin;
  float sums[kVectorRows], bias[kVectorRows];
  kernels::RowDots(rows, p.k, p.x, p.w.Offset(begin * p.k), sums);
  if (p.bias) {
    kernels::Convert(rows, p.bias.Offset(begin), {bias, DType::kF32});
    for (int64_t row = 0; row < rows; ++row) sums[row] += bias[row];
  }
  kernels::Convert(rows, {sums, DType::kF32}, p.y.Offset(begin));
}

}  // namespace

void CpuOps::LinearForward(Stream& stream, const LinearForwardArguments& p) {
  if (p.m == 1 && p.x.dtype == p.w.dtype) {
    pool_.RunBlocks(p.n, kVectorRows, [&](int64_t begin, int64_t end) { VectorProduct(p, begin, end); });
  } else {
    ProductForward(stream, p);
  }
  if (!p.residual) return;
  pool_.RunBlocks(p.m * p.n, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Add(end - begin, p.residual.Offset(begin), p.y.Offset(begin), p.y.Offset(begin));
  });
}

void CpuOps::ProductForward(Stream& stream, const LinearForwardArguments& p) {
  const MatmulArguments product{.m = p.m,
                                .n = p.n,
                                .k = p.k,
                                .a = {p.x, p.k},
                                .b = {p.w, p.k, /*transposed=*/true},
                                .c = {p.y, p.n},
                                .bias = p.bias};
  static_cast<CpuStream&>(stream).Keep(Matmul(pool_, product));
}

void CpuOps::LinearGeluForward(Stream& stream, const LinearGeluForwardArguments& p) {
  LinearForward(stream, {.m = p.m, .n = p.n, .k = p.k, .x = p.x, .w = p.w, .bias = p.bias, .y = p.before});
  GeluForward(stream, p.m * p.n, p.before, p.y);
}

void CpuOps::LinearBackwardInputGelu(Stream& stream, const LinearBackwardInputGeluArguments& p) {
  LinearBackwardInput(stream, {.m = p.m, .n = p.n, .k = p.k, .dy = p.dy, .w = p.w, .dx = p.dbefore});
  pool_.RunBlocks(p.m * p.k, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::GeluGradient(end - begin, p.before.Offset(begin), p.dbefore.Offset(begin), p.dbefore.Offset(begin));
  });
}

void CpuOps::LinearBackwardInput(Stream& stream, const LinearBackwardInputArguments& p) {
  const MatmulArguments product{.m = p.m, .n = p.k, .k = p.n, .a = {p.dy, p.n}, .b = {p.w, p.k}, .c = {p.dx, p.k}};
  static_cast<CpuStream&>(stream).Keep(Matmul(pool_, product));
}

void CpuOps::LinearBackwardWeight(Stream& stream, const LinearBackwardWeightArguments& p) {
  const MatmulArguments product{.m = p.n,
                                .n = p.k,
                                .k = p.m,
                                .a = {p.dy, p.n, /*transposed=*/true},
                                .b = {p.x, p.k},
                                .c = {p.gradient(), p.k},
                                .accumulate = !p.written};
  static_cast<CpuStream&>(stream).Keep(Matmul(pool_, product));
  if (p.dbias == nullptr) return;
  SumOverRows(pool_, p.m, p.n, {&p.dbias, 1}, [&](int64_t begin, int64_t end, float* partial) {
    kernels::SumRows(end - begin, p.n, p.n, p.dy.Offset(begin * p.n), partial);
  });
}

}  // namespace zerofleet::device
