// How many tokens' logits, and how many tokens' gradients of logits, are in memory at a time.
//
// A product with the logits' gradient reads the output embedding, or reads and writes its fp32 gradient, once for all
// its tokens. Rounded to bf16 the gradient of a token takes half of its logits' bytes, so products take it of up to
// kMostRows tokens: for GPT-2's vocabulary 51 MB, as many as the logits of 256 tokens. With 1,024 the product that
// packs columns is slower again, since each of a column's elements is on a page of its own.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_LOGITS_GRADIENT_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_LOGITS_GRADIENT_H_

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "worker/device/cpu/matmul_primitive.h"
#include "worker/device/tensor.h"

namespace zerofleet::device {

struct LogitsGradientPlan {
  static constexpr int64_t kMostRows = 512, kAlignment = 64;

  int64_t logits_rows, rows;  // of logits; of their gradient, a multiple of it unless it has all
  int64_t gradient_at, bytes;
  bool rounded;  // else the gradient is in the logits' place

  // For m tokens whose activations have the type `dtype`, with the logits of `logits_rows` at a time.
  LogitsGradientPlan(int64_t m, int64_t logits_rows_at_a_time, int64_t vocab, DType dtype)
      : logits_rows(logits_rows_at_a_time),
        rows(logits_rows_at_a_time),
        gradient_at(0),
        bytes(logits_rows_at_a_time * vocab * 4),
        rounded(dtype == DType::kBF16 && HasBF16Instructions()) {
    if (!rounded) return;
    rows = std::min(m, std::max<int64_t>(1, kMostRows / logits_rows) * logits_rows);
    gradient_at = RoundUp(bytes, kAlignment);
    bytes = gradient_at + rows * vocab * 2;
  }

  Tensor Logits(std::byte* memory) const { return {memory, DType::kF32}; }
  Tensor Gradient(std::byte* memory) const { return {memory + gradient_at, rounded ? DType::kBF16 : DType::kF32}; }
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_LOGITS_GRADIENT_H_
