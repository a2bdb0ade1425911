// Normalises the residual stream (Ba et al. 2016; Zhang and Sennrich 2019) for the tokens that a rank has, and hands on
// all tokens.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_NORM_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_NORM_H_

#include "worker/model/declaration.h"
#include "worker/model/layer.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

// A norm whose input, output and statistics may be anywhere: blocks' norms and the head's use it.
class NormOp {
 public:
  NormOp(const Norm& row, float epsilon, Declaration& declaration);

  // The places of one normalisation: `input` has the stream's tokens, `output` all tokens, the fp32 statistics the
  // stream's tokens.
  struct Places {
    device::Tensor input, output;
    float *mean, *rstd;  // an RMS norm has no mean
  };
  absl::Status Forward(const UnitPass& pass, const Places& places) const;
  // Normalises one token, on one rank.
  void ForwardOne(const UnitPass& pass, const Places& places) const;
  // Adds to `dx`, which has the stream's tokens, from the parts' summands of `dy`, which has all tokens and is
  // overwritten.
  absl::Status Backward(const UnitPass& pass, const Places& places, device::Tensor dy, device::Tensor dx) const;
  // Does what Layer::AddNormGradient does.
  absl::Status AddGradient(const UnitPass& pass) const;

 private:
  bool rms() const { return kind_ == NormKind::kRms; }
  int64_t elements() const { return rms() ? hidden_ : 2 * hidden_; }
  void AddGradients(const UnitPass& pass, const Places& places, device::Tensor dy, device::Tensor dx,
                    float* sums) const;
  void Normalise(const UnitPass& pass, const Places& places, int64_t m, device::Tensor output) const;

  const NormKind kind_;
  const int64_t hidden_;
  const float epsilon_;
  const int64_t weight_, bias_;  // neighbours in the unit; an RMS norm has no bias
  const int64_t sums_at_;        // offset in Scratch::norm_gradients
};

// Sums over the ranks the gradients of a unit's norms, `elements` of them in scratch; each rank has those of some
// tokens or heads.
absl::Status SumNormGradients(const UnitPass& pass, int64_t elements);
// Adds such a sum, `sums`, to pass.dw at `weight` in the unit.
absl::Status AddSummedGradient(const UnitPass& pass, int64_t weight, int64_t elements, float* sums);

class NormLayer : public Layer {
 public:
  NormLayer(const Norm& row, float epsilon, Declaration& declaration);

  absl::Status Forward(const UnitPass& pass) const override { return norm_.Forward(pass, PlacesIn(pass)); }
  absl::Status Again(const UnitPass& pass) const override { return Forward(pass); }
  absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const override;
  device::Tensor Output(const UnitPass& pass) const override { return pass.At(output_); }
  absl::Status AddNormGradient(const UnitPass& pass) const override { return norm_.AddGradient(pass); }
  GradientPlace TakesGradient(const UnitPass& pass) const override { return {pass.pass.scratch.narrow, {}}; }

 private:
  NormOp::Places PlacesIn(const UnitPass& pass) const;

  const int branch_;
  const NormOp norm_;
  const int output_, mean_, rstd_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_NORM_H_
