// A CPU device for tests of whole runs.
#ifndef ZEROFLEET_WORKER_TRAINER_KNOWN_CPU_TESTING_H_
#define ZEROFLEET_WORKER_TRAINER_KNOWN_CPU_TESTING_H_

#include <cstdint>
#include <memory>

#include "worker/device/cpu/cpu_device.h"

namespace zerofleet::trainer {

// A CPU whose peak is known, since measuring it takes longer than a small model's whole run, and whose host memory has
// a limit.
class KnownCpu : public device::CpuDevice {
 public:
  explicit KnownCpu(int64_t most_host_bytes = int64_t{1} << 40)
      : device::CpuDevice(1), most_host_bytes_(most_host_bytes) {}
  double datasheet_flops(device::DType) const override { return 1e15; }
  absl::StatusOr<std::unique_ptr<device::Reservation>> ReserveHost(int64_t bytes) override {
    if (bytes > most_host_bytes_) return absl::ResourceExhaustedError("no more memory");
    return device::CpuDevice::ReserveHost(bytes);
  }

 private:
  const int64_t most_host_bytes_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_KNOWN_CPU_TESTING_H_
