// Places that depend on a pass; see layer.h.
#include "worker/model/layer.h"

#include "base/status.h"

namespace zerofleet::model {

absl::StatusOr<device::Tensor> Pass::WholeGradient(const std::string& unit) const {
  const device::Tensor mine = activations.FinalInput();
  if (!residual.divided()) return mine;
  ops.Convert(stream, residual.Tokens(m()) * residual.hidden(), mine, residual.Rows(scratch.narrow, m()));
  ZF_RETURN_IF_ERROR(residual.Gather(scratch.narrow, m(), unit, stream));
  return scratch.narrow;
}

device::Tensor UnitPass::StreamBefore(int branch) const {
  if (branch == 0) return pass.activations.Input(layer);
  if (branch > static_cast<int>(middles->size())) return pass.activations.Output(layer);
  return At((*middles)[branch - 1]);
}

}  // namespace zerofleet::model
