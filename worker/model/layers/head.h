// The end of the residual stream: a norm, and the loss of logits made with the token embedding or a matrix of its own.
//
// Shared by a tensor group, each rank makes its columns of the logits. Losses come from a softmax whose parts are
// gathered, 12 bytes per token and rank (worker/device/vocabulary_ops.h).
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_HEAD_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_HEAD_H_

#include "worker/device/band_ops.h"
#include "worker/model/layers/norm.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

class HeadLayer {
 public:
  HeadLayer(const Head& row, float epsilon, Declaration& declaration);

  struct Loss {
    const float* gradient_scale;  // one; read if `backward`
    double* sum;                  // one, overwritten
    bool backward, in_bands;      // whether a backward follows, and whether it makes gradients in bands
    device::LossTerms terms = {};
    device::Tensor output = {};  // the matrix (V,C) that makes the logits
    float* doutput = nullptr;    // its gradient (V,C), added to in a backward that is not in bands
  };
  // Normalises the stream, for the other two.
  absl::Status Forward(const UnitPass& pass, const Loss& loss) const;
  absl::Status ComputeLoss(const UnitPass& pass, const Loss& loss) const;
  // From the loss to the residual stream: its gradient takes the place of the last block's output.
  absl::Status Backward(const UnitPass& pass) const;
  // In a backward in bands, the gradient of the head's own matrix.
  absl::Status OutputInBands(const UnitPass& pass, const Loss& loss) const;

  // Where the matrix that makes the logits is in the unit; -1 where that is the token embedding.
  int64_t output_at() const { return output_; }
  // Rows of the output's gradient, from logits that are computed again.
  void AddToBand(const Pass& pass, const Loss& loss, const device::RowBand& rows, float* band) const;

  // The logits (V) behind the last token, of a whole model: first its norm, then the product with `output`.
  void NormaliseLast(const UnitPass& pass) const;
  void LastLogits(const UnitPass& pass, device::Tensor output, device::Tensor logits) const;

 private:
  NormOp::Places PlacesIn(const Pass& pass, device::Tensor output) const;
  absl::Status PartLoss(const UnitPass& pass, const device::CrossEntropyArguments& whole) const;

  const int64_t hidden_, vocab_;
  const NormOp norm_;
  const int64_t output_;
  const int64_t norm_sums_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_HEAD_H_
