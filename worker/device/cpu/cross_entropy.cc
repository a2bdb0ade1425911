// Output head with softmax cross-entropy (ops.h), a chunk of tokens at a time.
//
// For each chunk: logits = x w^T, the rows' losses, dlogits in the logits' place, then dx and dw from it. Where matmuls
// have bf16 instructions, dlogits is also rounded to bf16 for them.
#include <algorithm>

#include "base/units.h"
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/matmul.h"
#include "worker/device/cpu/matmul_primitive.h"

namespace zerofleet {
namespace {

constexpr int64_t kLogitsBytes = int64_t{32} << 20;
constexpr int64_t kAlignBytes = 64;

// How the scratch is cut: losses (M doubles), logits (rows,V) fp32, rounded dlogits (rows,V) bf16 or nothing.
struct Plan {
  int64_t rows;  // tokens per chunk
  int64_t logits_at, rounded_at, bytes;
  bool rounded;

  Plan(int64_t m, int64_t vocab, DType dtype) {
    const int64_t fit = std::clamp<int64_t>(kLogitsBytes / (vocab * 4), 1, m);
    const int64_t chunks = CeilDivide(m, fit);
    rows = std::min(fit, RoundUp(CeilDivide(m, chunks), 16));
    rounded = dtype == DType::kBF16 && HasBF16Instructions();
    logits_at = RoundUp(m * 8, kAlignBytes);
    rounded_at = logits_at + RoundUp(rows * vocab * 4, kAlignBytes);
    bytes = rounded_at + (rounded ? rows * vocab * 2 : 0);
  }
};

}  // namespace

void CpuOps::CrossEntropy(Stream& stream, int64_t m, int64_t c, int64_t vocab, Tensor x, Tensor w,
                          const int32_t* targets, const float* gradient_scale, double* loss_sum, Tensor dx, float* dw,
                          void* scratch) {
  const Plan plan(m, vocab, x.dtype);
  const bool gradient = static_cast<bool>(dx);
  const float scale = gradient ? *gradient_scale : 0.0f;
  std::byte* const base = static_cast<std::byte*>(scratch);
  double* const losses = reinterpret_cast<double*>(base);
  const Tensor logits{base + plan.logits_at, DType::kF32}, rounded{base + plan.rounded_at, DType::kBF16};
  const Tensor dlogits = plan.rounded ? rounded : logits;
  CpuStream& cpu_stream = static_cast<CpuStream&>(stream);

  for (int64_t first = 0; first < m; first += plan.rows) {
    const int64_t rows = std::min(plan.rows, m - first);
    const Tensor x_chunk = x.Offset(first * c);
    cpu_stream.Keep(
        Matmul(pool_, {.m = rows, .n = vocab, .k = c, .a = {x_chunk, c}, .b = {w, c, true}, .c = {logits, vocab}}));
    pool_.RunBlocks(rows, RowBlock(vocab), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const Tensor at = logits.Offset(row * vocab);
        losses[first + row] =
            kernels::CrossEntropyRow(vocab, targets[first + row], gradient, scale, static_cast<float*>(at.data));
        if (gradient && plan.rounded) kernels::Convert(vocab, at, rounded.Offset(row * vocab));
      }
    });
    if (!gradient) continue;
    cpu_stream.Keep(Matmul(
        pool_, {.m = rows, .n = c, .k = vocab, .a = {dlogits, vocab}, .b = {w, c}, .c = {dx.Offset(first * c), c}}));
    cpu_stream.Keep(Matmul(pool_, {.m = vocab,
                                   .n = c,
                                   .k = rows,
                                   .a = {dlogits, vocab, true},
                                   .b = {x_chunk, c},
                                   .c = {{dw, DType::kF32}, c},
                                   .accumulate = true}));
  }
  *loss_sum = 0;
  for (int64_t row = 0; row < m; ++row) *loss_sum += losses[row];
}

int64_t CpuOps::CrossEntropyScratchBytes(int64_t m, int64_t, int64_t vocab, DType dtype) const {
  return Plan(m, vocab, dtype).bytes;
}

}  // namespace zerofleet
