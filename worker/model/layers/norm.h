// Normalises the residual stream (Ba et al. 2016; Zhang and Sennrich 2019), of the tokens that a rank has, and hands
// all tokens on.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_NORM_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_NORM_H_

#include "worker/model/declaration.h"
#include "worker/model/layer.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

// The norm alone, wherever its input, output and statistics are: the head has one too.
class NormOp {
 public:
  NormOp(const Norm& row, float epsilon, Declaration& declaration);

  // What one normalisation reads and writes: the stream's tokens, all tokens, and fp32 of the stream's tokens.
  struct Places {
    device::Tensor input, output;
    float *mean, *rstd;  // no mean of an RMS norm
  };
  absl::Status Forward(const UnitPass& pass, const Places& places) const;
  // The forward pass of one token, on one rank.
  void ForwardOne(const UnitPass& pass, const Places& places) const;
  // Adds to `dx`, of the stream's tokens, from the parts' shares of `dy`, of all tokens, which is overwritten.
  absl::Status Backward(const UnitPass& pass, const Places& places, device::Tensor dy, device::Tensor dx) const;
  // As Layer's.
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
  const int64_t sums_at_;        // among the unit's norms, in scratch
};

// Adds up what the ranks have of a unit's norms, `elements` in scratch: of some tokens, or some heads.
absl::Status SumNormGradients(const UnitPass& pass, int64_t elements);
// Adds such a sum to pass.dw, at `weight` in the unit.
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
