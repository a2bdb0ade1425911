// The ops of a part of the vocabulary, which the ranks of a tensor group share (Shoeybi et al. 2019): its rows of the
// embedding, and its columns of the logits, which no rank ever has whole.
//
// The legend of ops.h holds; V is the number of rows that the part has. Ops::vocabulary() has these ops.
#ifndef ZEROFLEET_WORKER_DEVICE_VOCABULARY_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_VOCABULARY_OPS_H_

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "worker/device/op_arguments.h"
#include "worker/device/tensor.h"

namespace zerofleet::device {

class Stream;

// Tokens first to first + rows - 1. Row 0 of a part's embedding is of token `first`.
struct VocabularyPart {
  int64_t first, rows;
};

// What a part knows of one token's softmax.
struct SoftmaxPart {
  float largest;  // of its logits
  float sum;      // of exp(logit - largest)
  // What the loss subtracts from the log of the denominator: the logit of the token's target, or 0 where that is of
  // another part; with label smoothing s, 1 - s of it and s of the mean over the whole vocabulary of the logits.
  float target;
};

struct PartLogitsArguments {
  int64_t m, c;
  VocabularyPart part;
  Tensor x;                // (M,C)
  Tensor w;                // (V,C)
  const int32_t* targets;  // (M), as CrossEntropy's
  float* logits;           // (M,V), rows padded as the device wants them, overwritten: for PartCrossEntropy
  SoftmaxPart* softmax;    // (M), overwritten
  int64_t vocab = 0;       // of the whole model; read with label smoothing
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
  const float* gradient_scale;     // one; read if dx is set
  double* loss_sum;                // one, added to
  float* logits;                   // from PartLogits; overwritten if dx is set
  void* scratch;                   // PartLogitsScratchBytes, of which logits are the first
  Tensor dx = {};                  // (M,C), overwritten: this part's share of a sum over all; null for the loss alone
  float* dw = nullptr;             // (V,C), added to if dx is set; may be null if `kept` is set
  LogitsGradient* kept = nullptr;  // (M), overwritten, for BandOps::CrossEntropyBand
  int64_t vocab = 0;               // of the whole model; read with label smoothing
  LossTerms terms = {};            // PartLogits'; none with `kept`
};

// How many of M tokens' logits over `vocab` rows to make at a time: fp32 logits of 32 MiB, but of no fewer than
// kFewestRows. A chunk reads the head's weights twice, and reads and writes their gradient, 16 bytes per element, for 6
// FLOPs per element and token: with too few tokens that is what it waits for. The same on every device: parts of a
// vocabulary exchange their softmax each time.
inline int64_t LogitsRows(int64_t m, int64_t vocab) {
  constexpr int64_t kLogitsBytes = int64_t{32} << 20, kFewestRows = 128;
  const int64_t fit = std::clamp<int64_t>(std::max(kLogitsBytes / (vocab * 4), kFewestRows), 1, m);
  return std::min(fit, RoundUp(CeilDivide(m, CeilDivide(m, fit)), 16));
}

class VocabularyOps {
 public:
  virtual ~VocabularyOps() = default;

  // x(M,C) = wte[token], or 0 where the part does not have the token, + wpe[position], which may be null.
  virtual void PartEmbeddingForward(Stream&, const VocabularyPart&, const EmbeddingForwardArguments&) = 0;
  // dwte(V,C) += of the part's tokens, dwpe(T_max,C) += of all, fp32, in token order.
  virtual void PartEmbeddingBackward(Stream&, const VocabularyPart&, const EmbeddingBackwardArguments&) = 0;

  // Softmax cross-entropy in two ops, between which the parts exchange `softmax`. Every part gets the same bits of the
  // loss: it is computed from what they exchanged alone, in the order of the parts.
  virtual void PartLogits(Stream&, const PartLogitsArguments&) = 0;
  virtual void PartCrossEntropy(Stream&, const PartCrossEntropyArguments&) = 0;
  virtual int64_t PartLogitsScratchBytes(int64_t rows, int64_t vocab, DType dtype) const = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_VOCABULARY_OPS_H_
