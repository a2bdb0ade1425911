// The activation of an MLP: GELU, as the tanh approximation (Hendrycks and Gimpel 2016).
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_ACTIVATE_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_ACTIVATE_H_

#include "worker/model/declaration.h"
#include "worker/model/layer.h"

namespace zerofleet::model {

// The product behind it goes backward through it in the same op. The product before it, if it has a bias, also computes
// it forward; the bits are those of the element-wise op.
class GeluLayer : public Layer {
 public:
  explicit GeluLayer(Declaration& declaration);

  absl::Status Forward(const UnitPass& pass) const override { return fused_ ? absl::OkStatus() : Again(pass); }
  absl::Status Again(const UnitPass& pass) const override;
  absl::StatusOr<device::Tensor> Backward(const UnitPass& /*pass*/, device::Tensor dy) const override { return dy; }
  device::Tensor Output(const UnitPass& pass) const override { return pass.At(output_); }
  device::Tensor MadeByProduct(const UnitPass& pass) const override { return fused_ ? Output(pass) : device::Tensor{}; }
  GradientPlace TakesGradient(const UnitPass& pass) const override {
    return {before()->TakesGradient(pass).place, before()->Output(pass)};
  }

 private:
  const bool fused_;
  const int64_t columns_;
  const int output_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_ACTIVATE_H_
