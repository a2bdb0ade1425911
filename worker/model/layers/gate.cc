// One element-wise op each way; see gate.h.
#include "worker/model/layers/gate.h"

#include "worker/device/llama_ops.h"

namespace zerofleet::model {

GateLayer::GateLayer(Declaration& declaration)
    : columns_(declaration.products().back().n / 2),
      output_(declaration.Activation({.columns = columns_, .cheap = true})) {
  declaration.Gradient(3 * columns_);
  declaration.Pointwise(3 * 3 * columns_ * declaration.parts());
}

absl::Status GateLayer::Again(const UnitPass& pass) const {
  const Pass& p = pass.pass;
  p.ops.llama().GateForward(p.stream, {.m = p.m(), .n = columns_, .x = before()->Output(pass), .y = Output(pass)});
  return absl::OkStatus();
}

absl::StatusOr<device::Tensor> GateLayer::Backward(const UnitPass& pass, device::Tensor dy) const {
  const Pass& p = pass.pass;
  const device::Tensor dx = before()->TakesGradient(pass).place;
  p.ops.llama().GateBackward(p.stream, {.m = p.m(), .n = columns_, .x = before()->Output(pass), .dy = dy, .dx = dx});
  return dx;
}

}  // namespace zerofleet::model
