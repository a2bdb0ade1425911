// A device whose memory the host does not share, as far as the engine can tell: what offload does has a thread of its
// own there.
#ifndef ZEROFLEET_WORKER_ZERO_AWAY_DEVICE_TESTING_H_
#define ZEROFLEET_WORKER_ZERO_AWAY_DEVICE_TESTING_H_

#include "worker/device/cpu/cpu_device.h"

namespace zerofleet::zero {

class AwayDevice : public device::CpuDevice {
 public:
  AwayDevice() : device::CpuDevice(1) {}
  bool host_addressable() const override { return false; }
  device::Device& host() override { return host_; }

 private:
  device::CpuDevice host_{1};
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_AWAY_DEVICE_TESTING_H_
