// One unit after another; see muon_updater.h.
#include "worker/zero/muon_updater.h"

#include <optional>

#include "base/check.h"
#include "base/status.h"

namespace zerofleet::zero {

std::vector<memory::MemoryRow> MuonUpdater::Rows(const ZeroLayout& layout) {
  std::vector<memory::MemoryRow> rows = TrainingState::Rows(layout);
  for (const memory::MemoryRow& row : MuonMatrices::Rows(layout)) rows.push_back(row);
  return rows;
}

MuonUpdater::MuonUpdater(const UpdaterParts& parts)
    : DeviceUpdater(parts), parts_(parts), matrices_(parts, state(), parts.device, parts.stream) {}

absl::Status MuonUpdater::Update(const device::StepControl* control, device::Tensor gradients,
                                 device::Tensor parameters, bool delayed) {
  ZF_CHECK(!delayed);
  for (int u = 0; u < parts_.layout.units(); ++u) {
    const ZeroLayout::UpdatedRange place = parts_.layout.Updated(u);
    std::optional<MuonPiece> piece;
    if (place.elements() > 0) {
      state().gate().Await(place.state_offset, place.elements());
      piece.emplace(MuonPiece{.unit = u,
                              .begin = 0,
                              .count = place.elements(),
                              .control = control,
                              .learning_rate = learning_rate_,
                              .gradient = gradients.Offset(place.gradient_offset),
                              .states = state().At(place.state_offset),
                              .parameter = parameters.Offset(place.parameter_offset)});
      matrices_.Direct(*piece, MuonDirection::kOfStep);
    }
    ZF_RETURN_IF_ERROR(matrices_.Exchange(u));
    if (piece) matrices_.Update(*piece);
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
