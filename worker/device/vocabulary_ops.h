// The ops on a part of the vocabulary. The ranks of a tensor group divide the vocabulary among them (Shoeybi et al.
// 2019): each has its part's rows of the embedding and its columns of the logits, which no rank ever has whole.
//
// The legend of ops.h holds; V is the number of the part's rows. Ops::vocabulary() returns these ops.
#ifndef ZEROFLEET_WORKER_DEVICE_VOCABULARY_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_VOCABULARY_OPS_H_

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "worker/device/op_arguments.h"
#include "worker/device/tensor.h"

namespace zerofleet::device {

class Stream;

// Tokens first to first + rows - 1. Row 0 of a part's embedding belongs to token `first`.
struct VocabularyPart {
  int64_t first, rows;
};

// What a part knows of one token's softmax.
struct SoftmaxPart {
  float largest;  // the largest of its logits
  float sum;      // the sum of exp(logit - largest)
  // What the loss subtracts from the log of the denominator: the logit of the token's target, or 0 where the target is
  // in another part. With label smoothing s: (1 - s) times that, plus s times the sum of this part's logits over the
  // whole vocabulary's size.
  float target;
};

struct PartLogitsArguments {
  int64_t m, c;
  VocabularyPart part;
  Tensor x;                // (M,C)
  Tensor w;                // (V,C)
  const int32_t* targets;  // (M), as in CrossEntropyArguments
  float* logits;           // (M,V), overwritten, for PartCrossEntropy; the device chooses the padding of rows
  SoftmaxPart* softmax;    // (M), overwritten
  int64_t vocab = 0;       // the whole model's; read with label smoothing
  float label_smoothing = 0;
};

struct PartCrossEntropyArguments {
  int64_t m, c;
  VocabularyPart part;
  int index, parts;
  const SoftmaxPart* softmax;      // (parts,M), from every part's PartLogits; this one's is the index-th
  Tensor x;                        // (M,C)
  Tensor w;                        // (V,C)
  const int32_t* targets;          // (M)
  const float* gradient_scale;     // one value; read if dx is set
  double* loss_sum;                // one value, added to
  float* logits;                   // from PartLogits; overwritten if dx is set
  void* scratch;                   // PartLogitsScratchBytes; `logits` is at its beginning
  Tensor dx = {};                  // (M,C), overwritten: this part's addend of the sum; null for the loss alone
  float* dw = nullptr;             // (V,C), added to if dx is set; may be null if `kept` is set
  LogitsGradient* kept = nullptr;  // (M), overwritten, for BandOps::CrossEntropyBand
  int64_t vocab = 0;               // the whole model's; read with label smoothing
  LossTerms terms = {};            // label smoothing as in PartLogits; no terms with `kept`
};

// For how many of M tokens to compute the logits over `vocab` rows at a time: as many as make 32 MiB of fp32 logits,
// but at least kFewestRows. A chunk reads the head's weights twice, and reads and writes their gradient: 16 bytes per
// element for 6 FLOPs per element and token, so chunks of too few tokens wait for memory: on a core with AMX, of 600
// GFLOP/s and 8 GB/s, those of less than 200. The number is the same on every device, since the parts of a vocabulary
// exchange their softmax once per chunk.
inline int64_t LogitsRows(int64_t m, int64_t vocab) {
  constexpr int64_t kLogitsBytes = int64_t{32} << 20, kFewestRows = 256;
  const int64_t fit = std::clamp<int64_t>(std::max(kLogitsBytes / (vocab * 4), kFewestRows), 1, m);
  return std::min(fit, RoundUp(CeilDivide(m, CeilDivide(m, fit)), 16));
}

class VocabularyOps {
 public:
  virtual ~VocabularyOps() = default;

  // x(M,C) = wte[token], or 0 where the part does not have the token, + wpe[position] unless wpe is null.
  virtual void PartEmbeddingForward(Stream&, const VocabularyPart&, const EmbeddingForwardArguments&) = 0;
  // Adds dx to dwte(V,C) for the part's tokens and to dwpe(T_max,C) for all tokens: fp32, in token order.
  virtual void PartEmbeddingBackward(Stream&, const VocabularyPart&, const EmbeddingBackwardArguments&) = 0;

  // Softmax cross-entropy in two ops, between which the parts exchange `softmax`. Every part gets the same bits of the
  // loss: it is computed from the exchanged values alone, in the order of the parts.
  virtual void PartLogits(Stream&, const PartLogitsArguments&) = 0;
  virtual void PartCrossEntropy(Stream&, const PartCrossEntropyArguments&) = 0;
  virtual int64_t PartLogitsScratchBytes(int64_t rows, int64_t vocab, DType dtype) const = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_VOCABULARY_OPS_H_
