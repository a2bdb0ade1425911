// Rotary positions: queries and keys, turned where the product before has put them.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_ROTATE_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_ROTATE_H_

#include <vector>

#include "worker/model/declaration.h"
#include "worker/model/layer.h"

namespace zerofleet::model {

// Keeps nothing: a rotation is undone by the opposite one, which is its gradient's too.
class RotateLayer : public Layer {
 public:
  explicit RotateLayer(Declaration& declaration);

  absl::Status Forward(const UnitPass& pass) const override;
  absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const override;
  device::Tensor Output(const UnitPass& pass) const override { return before()->Output(pass); }
  GradientPlace TakesGradient(const UnitPass& pass) const override { return before()->TakesGradient(pass); }

 private:
  void Turn(const UnitPass& pass, device::Tensor x, bool back) const;

  const int64_t heads_, kv_heads_, head_size_;  // of the part
  const std::vector<float> frequencies_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_ROTATE_H_
