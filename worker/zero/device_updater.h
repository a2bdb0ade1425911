// Optimizer states in device memory, updated by the device's own ops: nothing moves, and the host waits for nothing.
#ifndef ZEROFLEET_WORKER_ZERO_DEVICE_UPDATER_H_
#define ZEROFLEET_WORKER_ZERO_DEVICE_UPDATER_H_

#include "worker/zero/updater.h"

namespace zerofleet::zero {

// How an updater treats the states that are on the device: all of them in DeviceUpdater, some of them where the rest is
// on the host. As Updater::Update (one op of the optimizer per unit) and Updater::Publish.
void UpdateOnDevice(const UpdaterParts& parts, const TrainingState& state, const device::StepControl* control,
                    device::Tensor gradients, device::Tensor parameters);
void PublishOnDevice(const UpdaterParts& parts, const TrainingState& state, device::Tensor parameters, size_t vector);

class DeviceUpdater : public Updater {
 public:
  explicit DeviceUpdater(const UpdaterParts& parts);

  TrainingState& state() override { return state_; }
  absl::Status Initialize(uint64_t seed) override;
  void Speculate(const device::StepControl*, const device::StepRule&) override {}
  void ExpectGradient(int, device::Tensor, const collective::Communicator::Pending&) override {}
  absl::Status TakeGradient(int, device::Tensor) override { return absl::OkStatus(); }
  absl::Status Update(const device::StepControl* control, device::Tensor gradients, device::Tensor parameters,
                      bool delayed) override;
  absl::StatusOr<bool> Flush(device::Tensor) override { return false; }
  bool updates_behind() const override { return false; }
  absl::Status FinishUnit(int) override { return absl::OkStatus(); }
  absl::Status Publish(device::Tensor parameters, size_t vector) override;
  LinkTraffic link() const override { return {}; }

 private:
  const UpdaterParts parts_;
  TrainingState state_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_DEVICE_UPDATER_H_
