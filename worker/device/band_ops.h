// The ops that make gradients of parameters in bands of rows, so that no gradient is ever whole in fp32 (ZeRO §6.2).
//
// The legend of ops.h holds. A band has the same bits as its rows have in the whole gradient: what is added to an
// element, and in which order, does not depend on the cut. Ops::bands() returns these ops.
#ifndef ZEROFLEET_WORKER_DEVICE_BAND_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_BAND_OPS_H_

#include <cstdint>

#include "worker/device/op_arguments.h"
#include "worker/device/tensor.h"
#include "worker/device/vocabulary_ops.h"

namespace zerofleet::device {

class Stream;

// Rows first to first + count - 1 of a gradient.
struct RowBand {
  int64_t first, count;
};

// The output embedding's gradient, from logits that are computed again.
struct CrossEntropyBandArguments {
  int64_t m, c;
  VocabularyPart part;          // the part that the band lies in; for a whole model, the whole vocabulary
  bool in_parts;                // whether PartCrossEntropy computed the loss
  RowBand band;                 // rows of the part, counted from its first
  int64_t rows;                 // tokens per chunk: LogitsRows, as when the loss was computed
  Tensor x;                     // (M,C)
  Tensor w;                     // (V,C)
  const int32_t* targets;       // (M)
  const float* gradient_scale;  // one
  const LogitsGradient* kept;   // (M), from CrossEntropy or PartCrossEntropy
  float* dw;                    // (band.count,C), added to
  void* scratch;                // CrossEntropyScratchBytes(M,C,V); `in_parts`: PartLogitsScratchBytes(rows,V)
};

class BandOps {
 public:
  virtual ~BandOps() = default;

  // The number of rows at whose multiples a weight gradient may be cut that has `rows` rows and comes from activations
  // of type `dtype`.
  virtual int64_t BandRows(int64_t rows, DType dtype) const = 0;

  // As LinearBackwardWeight, for the band's rows of dw and, unless it is null, of dbias; both point at the band's first
  // row.
  virtual void LinearBackwardWeightBand(Stream&, const LinearBackwardWeightArguments&, const RowBand&) = 0;
  virtual void CrossEntropyBand(Stream&, const CrossEntropyBandArguments&) = 0;
  // As PartEmbeddingBackward, for the rows of dwte that belong to `tokens`; dwpe is left alone.
  virtual void EmbeddingBackwardBand(Stream&, const EmbeddingBackwardArguments&, const VocabularyPart& tokens) = 0;
  // As PartEmbeddingBackward, for the rows `positions` of dwpe, which points at the first of them; dwte is left alone.
  virtual void PositionsBackwardBand(Stream&, const EmbeddingBackwardArguments&, const RowBand& positions) = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_BAND_OPS_H_
