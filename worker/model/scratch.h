// Memory that is free between the ops of one unit: two matrices that gradients pass through, and the ops' own scratch.
#ifndef ZEROFLEET_WORKER_MODEL_SCRATCH_H_
#define ZEROFLEET_WORKER_MODEL_SCRATCH_H_

#include <cstdint>
#include <span>

#include "base/units.h"
#include "worker/device/ops.h"
#include "worker/device/vocabulary_ops.h"
#include "worker/model/carver.h"

namespace zerofleet::model {

// The number of tokens per piece of an adapter's products.
inline constexpr int64_t kAdapterTokens = 1024;

// Elements of one adapter in Scratch::adapter_gradients, rounded up so that each begins at a cache line.
inline int64_t AdapterGradientElements(int64_t tokens, int64_t rank) { return RoundUp(tokens * rank, 64); }

struct Scratch {
  device::Tensor wide;    // gradient of the output of a branch's first product; the norm's output in the head
  device::Tensor narrow;  // as wide as the residual stream
  float *head_mean, *head_rstd;
  void* attention;
  // For adapters (low_rank.h): the output of A for one piece of tokens; a matrix with as many columns as a product, for
  // one piece; the gradients of A's outputs, for all tokens; and gradients that a tensor group sums.
  device::Tensor adapter_reduced, adapter_wide, adapter_gradients;
  float* adapter_sums = nullptr;
  float* norm_gradients;  // gradients of a unit's norms, where a tensor group sums them
  void* cross_entropy;    // for a whole model; `softmax` and `logits` for a part
  device::SoftmaxPart* softmax;
  void* logits;
  std::span<float> vector_sums;  // gradients of a unit's norms and biases before they are rounded or leave in bands
  // For a backward in bands: what the head keeps until the end of the pass.
  device::Tensor head_input;
  device::LogitsGradient* logits_gradient;
};

// The largest sizes that scratch has room for.
struct ScratchSizes {
  device::DType dtype;
  int64_t tokens, stream_tokens;  // tokens of a micro-batch, and of its residual stream on this rank
  int64_t hidden, wide;           // columns
  int64_t attention_bytes;
  int64_t norm_sums, vectors;  // fp32 elements
  int64_t adapter_rank = 0, adapter_columns = 0, adapter_sums = 0;
  int64_t vocab;  // the whole model's
  int parts;
  bool in_bands;

  Scratch Carve(Carver& carver, device::Ops& ops) const;
  // Carves what the head's loss needs.
  void CarveLoss(Carver& carver, device::Ops& ops, Scratch& scratch) const;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_SCRATCH_H_
