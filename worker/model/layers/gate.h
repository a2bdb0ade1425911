// The gate of an MLP, SwiGLU (Shazeer 2020): its input is two products side by side; the first, activated, times the
// second.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_GATE_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_GATE_H_

#include "worker/model/declaration.h"
#include "worker/model/layer.h"

namespace zerofleet::model {

class GateLayer : public Layer {
 public:
  explicit GateLayer(Declaration& declaration);

  absl::Status Forward(const UnitPass& pass) const override { return Again(pass); }
  absl::Status Again(const UnitPass& pass) const override;
  absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const override;
  device::Tensor Output(const UnitPass& pass) const override { return pass.At(output_); }
  // Behind the gradient of its input.
  GradientPlace TakesGradient(const UnitPass& pass) const override {
    return {before()->TakesGradient(pass).place.Offset(pass.pass.m() * 2 * columns_), {}};
  }

 private:
  const int64_t columns_;  // of its output in the part
  const int output_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_GATE_H_
