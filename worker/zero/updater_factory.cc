// The only file that knows which updaters exist; see updater_factory.h.
#include "worker/zero/updater_factory.h"

#include "worker/zero/device_updater.h"
#include "worker/zero/host_updater.h"
#include "worker/zero/muon_updater.h"
#include "worker/zero/training_state.h"

namespace zerofleet::zero {

std::unique_ptr<Updater> CreateUpdater(const UpdaterParts& parts) {
  if (parts.layout.offloads()) return std::make_unique<HostUpdater>(parts);
  if (parts.layout.optimizer().whole_matrices) return std::make_unique<MuonUpdater>(parts);
  return std::make_unique<DeviceUpdater>(parts);
}

std::vector<memory::MemoryRow> UpdaterRows(const ZeroLayout& layout) {
  if (layout.offloads()) return HostUpdater::Rows(layout);
  if (layout.optimizer().whole_matrices) return MuonUpdater::Rows(layout);
  return TrainingState::Rows(layout);
}

}  // namespace zerofleet::zero
