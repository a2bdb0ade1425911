// The beginning of the residual stream: a row of the token embedding for each token, and one for its position. A part
// has its rows of the vocabulary.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_EMBEDDING_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_EMBEDDING_H_

#include <functional>

#include "worker/device/band_ops.h"
#include "worker/model/declaration.h"
#include "worker/model/layer.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

class EmbeddingLayer {
 public:
  // `only_looked_up`: the head does not use the token embedding.
  EmbeddingLayer(const Embedding& row, bool only_looked_up, Declaration& declaration);

  // `x` is the residual stream's place.
  absl::Status Forward(const UnitPass& pass, device::Tensor x) const;
  // Adds to the whole unit's gradient, from the residual stream's.
  absl::Status Backward(const UnitPass& pass) const;
  // Deliver the unit's gradient in bands, from the residual stream's gradient `dx` of all tokens: first the part's rows
  // of the vocabulary, then the positions. `add`, unless it is null, first adds to each band what else its gradient
  // consists of.
  absl::Status TokensInBands(const UnitPass& pass, device::Tensor dx, const AddToBand& add) const;
  absl::Status PositionsInBands(const UnitPass& pass, device::Tensor dx) const;

  // Where the token embedding is in the unit.
  int64_t tokens_at() const { return tokens_; }

 private:
  device::EmbeddingBackwardArguments Lookup(const UnitPass& pass, device::Tensor dx, float* dtokens,
                                            float* dpositions) const;

  const int64_t hidden_, vocab_, context_;
  const int64_t tokens_, positions_;  // positions_ is -1 without positions
};

// A part's rows of the vocabulary.
device::VocabularyPart VocabularyPartOf(int64_t vocab, const ModelPart& part);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_EMBEDDING_H_
