// A row-parallel product into the residual stream: the end of a branch.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_PROJECT_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_PROJECT_H_

#include "worker/model/linear.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

class ProjectLayer : public Layer {
 public:
  ProjectLayer(const Project& row, Declaration& declaration);

  absl::Status Forward(const UnitPass& pass) const override;
  // `dy` is the residual stream's gradient for all tokens.
  absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const override;
  device::Tensor Output(const UnitPass& pass) const override { return pass.StreamBefore(branch_ + 1); }
  GradientPlace TakesGradient(const UnitPass& pass) const override { return {pass.pass.activations.FinalInput(), {}}; }

 private:
  const int branch_;
  const Linear product_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_PROJECT_H_
