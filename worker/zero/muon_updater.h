// Muon's updates where the states are on the device (muon_matrices.h).
#ifndef ZEROFLEET_WORKER_ZERO_MUON_UPDATER_H_
#define ZEROFLEET_WORKER_ZERO_MUON_UPDATER_H_

#include <vector>

#include "worker/zero/device_updater.h"
#include "worker/zero/muon_matrices.h"

namespace zerofleet::zero {

class MuonUpdater : public DeviceUpdater {
 public:
  // The rows of TrainingState and of MuonMatrices.
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);

  explicit MuonUpdater(const UpdaterParts& parts);

  void SetLearningRate(double learning_rate) override { learning_rate_ = learning_rate; }
  absl::Status Update(const device::StepControl* control, device::Tensor gradients, device::Tensor parameters,
                      bool delayed) override;
  absl::Status AwaitUpdate() override { return matrices_.AwaitExchange(); }

 private:
  const UpdaterParts parts_;
  MuonMatrices matrices_;
  double learning_rate_ = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_MUON_UPDATER_H_
