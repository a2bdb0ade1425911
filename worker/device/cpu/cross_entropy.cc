// Output head with softmax cross-entropy (ops.h), a chunk of tokens at a time.
//
// For each chunk: logits = x w^T, the rows' losses, dlogits in the logits' place, then dx and dw from dlogits. Where
// matmuls use bf16 instructions, dlogits is rounded to bf16 instead, and dx and dw follow several chunks at once
// (logits_gradient.h).
#include <algorithm>

#include "base/units.h"
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/logits_gradient.h"
#include "worker/device/cpu/matmul.h"
#include "worker/device/vocabulary_ops.h"

namespace zerofleet::device {
namespace {

// The layout of the scratch: losses (M doubles), and the logits and their gradient.
struct Plan {
  int64_t logits_at, bytes;
  LogitsGradientPlan gradient;

  Plan(int64_t m, int64_t vocab, DType dtype)
      : logits_at(RoundUp(m * 8, kAlignBytes)), gradient(m, LogitsRows(m, vocab), vocab, dtype) {
    bytes = logits_at + gradient.bytes;
  }
};

// Adds `terms` to a row's `loss`, which is returned, and with `gradient` to the gradient scale * (softmax -
// onehot(target)) in `logits`. `target_logit` is the target's logit, `sum` the sum of all logits. With d the log of the
// denominator of the softmax p, the gradient becomes scale * (p (1 + 2 z d) - (1 - smoothing) onehot - smoothing / V).
double AddTerms(const LossTerms& terms, int64_t vocab, int64_t target, double target_logit, double sum, double loss,
                bool gradient, float scale, float* logits) {
  const double denominator = loss + target_logit, smoothing = terms.label_smoothing, z = terms.z_loss;
  if (gradient) {
    logits[target] += scale;
    kernels::Scale(vocab, static_cast<float>(1 + 2 * z * denominator), logits);
    logits[target] -= static_cast<float>(scale * (1 - smoothing));
    const auto each = static_cast<float>(scale * smoothing / static_cast<double>(vocab));
    for (int64_t i = 0; i < vocab; ++i) logits[i] -= each;
  }
  const double of_all = denominator - sum / static_cast<double>(vocab);
  return (1 - smoothing) * loss + smoothing * of_all + z * denominator * denominator;
}

double Sum(int64_t count, const float* values) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

}  // namespace

void CpuOps::CrossEntropy(Stream& stream, const CrossEntropyArguments& p) {
  const Plan plan(p.m, p.vocab, p.x.dtype);
  std::byte* const base = static_cast<std::byte*>(p.scratch);
  double* const losses = reinterpret_cast<double*>(base);
  const Tensor logits = plan.gradient.Logits(base + plan.logits_at),
               dlogits = plan.gradient.Gradient(base + plan.logits_at);
  CpuStream& cpu_stream = static_cast<CpuStream&>(stream);

  for (int64_t first = 0; first < p.m; first += plan.gradient.rows) {
    const int64_t rows = std::min(plan.gradient.rows, p.m - first);
    for (int64_t row = first; row < first + rows; row += plan.gradient.logits_rows) {
      const int64_t count = std::min(plan.gradient.logits_rows, first + rows - row);
      cpu_stream.Keep(Matmul(pool_, {.m = count,
                                     .n = p.vocab,
                                     .k = p.c,
                                     .a = {p.x.Offset(row * p.c), p.c},
                                     .b = {p.w, p.c, true},
                                     .c = {logits, p.vocab}}));
      LossesOfRows(p, row, count, logits, dlogits.Offset((row - first) * p.vocab), losses + row);
    }
    if (!p.dx) continue;
    cpu_stream.Keep(Matmul(pool_, {.m = rows,
                                   .n = p.c,
                                   .k = p.vocab,
                                   .a = {dlogits, p.vocab},
                                   .b = {p.w, p.c},
                                   .c = {p.dx.Offset(first * p.c), p.c}}));
    if (p.dw == nullptr) continue;
    cpu_stream.Keep(Matmul(pool_, {.m = p.vocab,
                                   .n = p.c,
                                   .k = rows,
                                   .a = {dlogits, p.vocab, true},
                                   .b = {p.x.Offset(first * p.c), p.c},
                                   .c = {{p.dw, DType::kF32}, p.c},
                                   .accumulate = true}));
  }
  *p.loss_sum = 0;
  for (int64_t row = 0; row < p.m; ++row) *p.loss_sum += losses[row];
}

// Computes, for `count` tokens from `first`, `losses` and, unless p.dx is null, the logits' gradient in `dlogits`,
// which may be the logits' place.
void CpuOps::LossesOfRows(const CrossEntropyArguments& p, int64_t first, int64_t count, Tensor logits, Tensor dlogits,
                          double* losses) {
  const bool gradient = static_cast<bool>(p.dx), rounds = dlogits.dtype != DType::kF32;
  const float scale = gradient ? *p.gradient_scale : 0.0f;
  pool_.RunBlocks(count, RowBlock(p.vocab), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Tensor at = logits.Offset(row * p.vocab), dlogits_row = dlogits.Offset(row * p.vocab);
      float* const values = static_cast<float*>(at.data);
      const int64_t target = p.targets[first + row];
      const bool terms = !p.terms.none() && target >= 0;
      const double target_logit = terms ? values[target] : 0, sum = terms ? Sum(p.vocab, values) : 0;
      double& loss = losses[row];
      Tensor to = terms ? at : dlogits_row;  // terms are added in fp32
      if (!gradient) to = {};
      loss = kernels::CrossEntropyRow(p.vocab, target, to, scale, values,
                                      p.kept == nullptr ? nullptr : p.kept + first + row);
      if (!terms) continue;
      loss = AddTerms(p.terms, p.vocab, target, target_logit, sum, loss, gradient, scale, values);
      if (gradient && rounds) kernels::Convert(p.vocab, at, dlogits_row);
    }
  });
}

int64_t CpuOps::CrossEntropyScratchBytes(int64_t m, int64_t, int64_t vocab, DType dtype) const {
  return Plan(m, vocab, dtype).bytes;
}

}  // namespace zerofleet::device
