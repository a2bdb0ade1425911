// A column-parallel product: what a block makes of a norm's output.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_SPREAD_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_SPREAD_H_

#include "worker/model/linear.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

class SpreadLayer : public Layer {
 public:
  SpreadLayer(const Spread& row, Declaration& declaration);

  absl::Status Forward(const UnitPass& pass) const override;
  absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const override;
  device::Tensor Output(const UnitPass& pass) const override { return pass.At(output_); }
  GradientPlace TakesGradient(const UnitPass& pass) const override { return {pass.pass.scratch.wide, {}}; }

 private:
  const Linear product_;
  const int output_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_SPREAD_H_
