// A CPU device for tests of whole runs.
#ifndef ZEROFLEET_WORKER_TRAINER_KNOWN_CPU_TESTING_H_
#define ZEROFLEET_WORKER_TRAINER_KNOWN_CPU_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

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

// A CPU whose host memory changes between two views, or when Forget is called: one bit of each part of the states that
// was copied from the device.
class ForgetfulCpu : public KnownCpu {
 public:
  void Forget() {
    for (std::byte* const copied : std::exchange(copied_, {})) *copied ^= std::byte{1};
  }

  absl::StatusOr<std::unique_ptr<device::Reservation>> Reserve(int64_t bytes) override {
    Forget();
    return KnownCpu::Reserve(bytes);
  }
  absl::StatusOr<std::unique_ptr<device::Reservation>> ReserveHost(int64_t bytes) override {
    absl::StatusOr<std::unique_ptr<device::Reservation>> reservation = KnownCpu::Reserve(bytes);  // same on a CPU
    if (reservation.ok()) host_.push_back({(*reservation)->data(), static_cast<size_t>(bytes)});
    return reservation;
  }
  void Copy(device::Stream& stream, void* to, const void* from, int64_t bytes) override {
    KnownCpu::Copy(stream, to, from, bytes);
    constexpr int64_t kLeast = 256;  // bytes; smaller copies are not of states
    if (bytes >= kLeast && IsOfTheHost(to) && !IsOfTheHost(from)) copied_.insert(static_cast<std::byte*>(to));
  }

 private:
  bool IsOfTheHost(const void* place) const {
    const auto* const at = static_cast<const std::byte*>(place);
    return std::any_of(host_.begin(), host_.end(), [at](std::span<std::byte> memory) {
      return at >= memory.data() && at < memory.data() + memory.size();
    });
  }

  std::vector<std::span<std::byte>> host_;
  std::set<std::byte*> copied_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_KNOWN_CPU_TESTING_H_
