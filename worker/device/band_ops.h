// The ops that make gradients of parameters in bands of rows, so that none is ever whole in fp32 (ZeRO §6.2).
//
// The legend of ops.h holds. Every band has the bits that the whole gradient has in its rows: what is added to an
// element, and in which order, does not depend on the cut. Ops::bands() has these ops.
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
  VocabularyPart part;          // of which the band is a part; of a whole model the vocabulary
  bool in_parts;                // whether PartCrossEntropy computed the loss
  RowBand band;                 // counted in the part
  int64_t rows;                 // tokens at a time that PartLogits was given, if it was
  Tensor x;                     // (M,C)
  Tensor w;                     // (V,C)
  const int32_t* targets;       // (M)
  const float* gradient_scale;  // one
  const LogitsGradient* kept;   // (M), from CrossEntropy or PartCrossEntropy
  float* dw;                    // (band.count,C), added to
  void* scratch;                // of CrossEntropy for (M,C,V), or of PartLogits for (rows,V)
};

class BandOps {
 public:
  virtual ~BandOps() = default;

  // A weight gradient of so many rows, from activations of this type, may be cut at multiples of this many.
  virtual int64_t BandRows(int64_t rows, DType dtype) const = 0;

  // Rows of what LinearBackwardWeight adds to dw and, unless it is null, to dbias, which point at the first of them.
  virtual void LinearBackwardWeightBand(Stream&, const LinearBackwardWeightArguments&, const RowBand&) = 0;
  virtual void CrossEntropyBand(Stream&, const CrossEntropyBandArguments&) = 0;
  // What PartEmbeddingBackward adds to rows of dwte, those of the tokens `tokens`; dwpe is left alone.
  virtual void EmbeddingBackwardBand(Stream&, const EmbeddingBackwardArguments&, const VocabularyPart& tokens) = 0;
  // And to rows of dwpe, which points at the first of them; dwte is left alone.
  virtual void PositionsBackwardBand(Stream&, const EmbeddingBackwardArguments&, const RowBand& positions) = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_BAND_OPS_H_
