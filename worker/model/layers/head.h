// The end of the residual stream: a norm, logits made with the token embedding or a matrix of the head's own, and their
// loss.
//
// In a tensor group each rank makes its columns of the logits. The loss is that of one softmax whose parts are
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
    const float* gradient_scale;  // one float; read if `backward`
    double* sum;                  // one double, overwritten
    bool backward, in_bands;      // whether a backward follows, and whether it makes gradients in bands
    device::LossTerms terms = {};
    device::Tensor output = {};  // the matrix (V,C) that makes the logits
    float* doutput = nullptr;    // gradient (V,C) of `output`; added to in a backward that is not in bands
  };
  // Normalises the stream, for ComputeLoss and Backward.
  absl::Status Forward(const UnitPass& pass, const Loss& loss) const;
  absl::Status ComputeLoss(const UnitPass& pass, const Loss& loss) const;
  // Goes from the loss to the residual stream, whose gradient takes the place of the last block's output.
  absl::Status Backward(const UnitPass& pass) const;
  // In a backward in bands, delivers the gradient of the head's own matrix.
  absl::Status OutputInBands(const UnitPass& pass, const Loss& loss) const;

  // The offset in the unit of the matrix that makes the logits; -1 if that is the token embedding.
  int64_t output_at() const { return output_; }
  // Adds to `band` the rows `rows` of the gradient of Loss::output, from logits that are computed again.
  void AddToBand(const Pass& pass, const Loss& loss, const device::RowBand& rows, float* band) const;

  // The logits (V) behind the last token of a whole model: NormaliseLast first, then the product with `output`.
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
