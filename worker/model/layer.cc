// Places that depend on a pass; see layer.h.
#include "worker/model/layer.h"

#include <algorithm>

#include "base/status.h"

namespace zerofleet::model {

absl::StatusOr<device::Tensor> Pass::WholeGradient(const std::string& unit) const {
  const device::Tensor mine = activations.FinalInput();
  if (!residual.divided()) return mine;
  ops.Convert(stream, residual.Tokens(m()) * residual.hidden(), mine, residual.Rows(scratch.narrow, m()));
  ZF_RETURN_IF_ERROR(residual.Gather(scratch.narrow, m(), unit, stream));
  return scratch.narrow;
}

absl::Status DeliverVocabularyInBands(const UnitPass& pass, int64_t vocab, int64_t hidden, int64_t at,
                                      const AddToBand& add) {
  const Pass& p = pass.pass;
  const SectionRows rows = RowsOfPart(vocab, p.residual.part());
  const int64_t most = p.gradients.ProductRows(rows.real, hidden);
  for (int64_t first = 0; first < rows.all; first += most) {
    const int64_t count = std::min(most, rows.all - first), real = std::min(count, rows.real - first);
    float* const band = p.gradients.Zeros(count * hidden);
    if (real > 0) add({first, real}, band);
    ZF_RETURN_IF_ERROR(pass.dw->Deliver(at + first * hidden, count * hidden, band));
  }
  return absl::OkStatus();
}

device::Tensor UnitPass::StreamBefore(int branch) const {
  if (branch == 0) return pass.activations.Input(layer);
  if (branch > static_cast<int>(middles->size())) return pass.activations.Output(layer);
  return At((*middles)[branch - 1]);
}

}  // namespace zerofleet::model
