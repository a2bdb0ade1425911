// What is left to do element-wise; see activate.h.
#include "worker/model/layers/activate.h"

namespace zerofleet::model {

GeluLayer::GeluLayer(Declaration& declaration)
    : fused_(declaration.products().back().bias),
      columns_(declaration.products().back().n),
      output_(declaration.Activation({.columns = columns_, .cheap = true})) {
  declaration.Pointwise(3 * 2 * columns_ * declaration.parts());
}

absl::Status GeluLayer::Again(const UnitPass& pass) const {
  const Pass& p = pass.pass;
  p.ops.GeluForward(p.stream, p.m() * columns_, before()->Output(pass), Output(pass));
  return absl::OkStatus();
}

}  // namespace zerofleet::model
