// The ops of a part of the vocabulary (vocabulary_ops.h).
//
// As in cross_entropy.cc, logits are fp32; where matmuls use bf16 instructions, the logits' gradient is rounded to bf16
// for them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/units.h"
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/logits_gradient.h"
#include "worker/device/cpu/matmul.h"

namespace zerofleet::device {
namespace {

bool Has(const VocabularyPart& part, int64_t token) { return token >= part.first && token < part.first + part.rows; }

// One token's softmax over all parts.
struct WholeSoftmax {
  double loss, log_denominator;
  float share;  // the factor that makes this part's exp(logit - its largest) a probability
};

WholeSoftmax Combine(const SoftmaxPart* softmax, int64_t m, int parts, int index, int64_t row) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int part = 0; part < parts; ++part) largest = std::max(largest, softmax[part * m + row].largest);
  double sum = 0, target = 0;
  for (int part = 0; part < parts; ++part) {
    const SoftmaxPart& one = softmax[part * m + row];
    sum += one.sum * std::exp(static_cast<double>(one.largest) - largest);
    target += one.target;
  }
  const double mine = std::exp(static_cast<double>(softmax[index * m + row].largest) - largest);
  return {std::log(sum) + (largest - target), std::log(sum) + largest, static_cast<float>(mine / sum)};
}

}  // namespace

void CpuOps::PartEmbeddingForward(Stream&, const VocabularyPart& part, const EmbeddingForwardArguments& p) {
  pool_.RunBlocks(p.batch * p.time, RowBlock(p.c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Tensor x = p.x.Offset(row * p.c), position = p.wpe ? p.wpe.Offset(PositionOf(p, row) * p.c) : Tensor{};
      const int64_t token = p.tokens[row];
      const Tensor of_token = Has(part, token) ? p.wte.Offset((token - part.first) * p.c) : Tensor{};
      if (of_token && position) {
        kernels::Add(p.c, of_token, position, x);
      } else if (of_token || position) {
        kernels::Convert(p.c, of_token ? of_token : position, x);
      } else {
        std::fill_n(static_cast<std::byte*>(x.data), p.c * DTypeBytes(x.dtype), std::byte{0});
      }
    }
  });
}

void CpuOps::PartEmbeddingBackward(Stream&, const VocabularyPart& part, const EmbeddingBackwardArguments& p) {
  pool_.RunBlocks(p.c, kernels::kColumnBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < p.batch * p.time; ++row) {
      const Tensor from = p.dx.Offset(row * p.c + begin);
      const int64_t token = p.tokens[row];
      if (Has(part, token)) kernels::Accumulate(end - begin, from, p.dwte + (token - part.first) * p.c + begin);
      if (p.dwpe != nullptr) kernels::Accumulate(end - begin, from, p.dwpe + PositionOf(p, row) * p.c + begin);
    }
  });
}

void CpuOps::PartLogits(Stream& stream, const PartLogitsArguments& p) {
  const int64_t vocab = p.part.rows;
  const Tensor logits{p.logits, DType::kF32};
  static_cast<CpuStream&>(stream).Keep(
      Matmul(pool_, {.m = p.m, .n = vocab, .k = p.c, .a = {p.x, p.c}, .b = {p.w, p.c, true}, .c = {logits, vocab}}));
  pool_.RunBlocks(p.m, RowBlock(vocab), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* const at = p.logits + row * vocab;
      SoftmaxPart& softmax = p.softmax[row];
      const int64_t target = p.targets[row];
      softmax.target = Has(p.part, target) ? at[target - p.part.first] : 0.0f;
      if (p.label_smoothing != 0) {
        const double mean = std::accumulate(at, at + vocab, 0.0) / static_cast<double>(p.vocab);
        softmax.target = static_cast<float>((1 - p.label_smoothing) * softmax.target + p.label_smoothing * mean);
      }
      softmax.sum = kernels::ExpFromLargest(vocab, at, &softmax.largest);
    }
  });
}

void CpuOps::PartCrossEntropy(Stream& stream, const PartCrossEntropyArguments& p) {
  const int64_t vocab = p.part.rows;
  const float z_loss = p.terms.z_loss, smoothing = p.terms.label_smoothing;
  for (int64_t row = 0; row < p.m; ++row) {
    if (p.targets[row] < 0) continue;
    const WholeSoftmax whole = Combine(p.softmax, p.m, p.parts, p.index, row);
    *p.loss_sum += whole.loss;
    if (z_loss != 0) *p.loss_sum += z_loss * whole.log_denominator * whole.log_denominator;
  }
  if (!p.dx) return;
  const float scale = *p.gradient_scale;
  const LogitsGradientPlan plan(p.m, p.m, vocab, p.x.dtype);
  const Tensor logits{p.logits, DType::kF32}, dlogits = plan.Gradient(static_cast<std::byte*>(p.scratch));
  pool_.RunBlocks(p.m, RowBlock(vocab), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* const at = p.logits + row * vocab;
      const bool counts = p.targets[row] >= 0;
      float factor = 0;
      if (counts) {
        const WholeSoftmax whole = Combine(p.softmax, p.m, p.parts, p.index, row);
        factor = scale * whole.share;
        if (z_loss != 0) factor *= static_cast<float>(1 + 2 * z_loss * whole.log_denominator);
      }
      kernels::Scale(vocab, factor, at);
      if (p.kept != nullptr) p.kept[row] = {p.softmax[p.index * p.m + row].largest, factor};
      if (const int64_t target = p.targets[row]; Has(p.part, target))
        at[target - p.part.first] -= scale * (1 - smoothing);
      if (counts && smoothing != 0) {
        const float each = scale * smoothing / static_cast<float>(p.vocab);
        for (int64_t i = 0; i < vocab; ++i) at[i] -= each;
      }
      if (plan.rounded) kernels::Convert(vocab, logits.Offset(row * vocab), dlogits.Offset(row * vocab));
    }
  });
  CpuStream& cpu_stream = static_cast<CpuStream&>(stream);
  cpu_stream.Keep(
      Matmul(pool_, {.m = p.m, .n = p.c, .k = vocab, .a = {dlogits, vocab}, .b = {p.w, p.c}, .c = {p.dx, p.c}}));
  if (p.dw == nullptr) return;
  cpu_stream.Keep(Matmul(pool_, {.m = vocab,
                                 .n = p.c,
                                 .k = p.m,
                                 .a = {dlogits, vocab, true},
                                 .b = {p.x, p.c},
                                 .c = {{p.dw, DType::kF32}, p.c},
                                 .accumulate = true}));
}

int64_t CpuOps::PartLogitsScratchBytes(int64_t rows, int64_t vocab, DType dtype) const {
  return LogitsGradientPlan(rows, rows, vocab, dtype).bytes;
}

}  // namespace zerofleet::device
