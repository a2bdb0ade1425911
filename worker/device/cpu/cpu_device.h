// The CPU as a device: reservations are zeroed anonymous pages, streams run synchronously, ops use the device's own
// pool.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_CPU_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_CPU_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/thread_pool.h"
#include "worker/device/device.h"
#include "worker/device/profile/op_profile.h"
#include "worker/device/profile/profiled_ops.h"

namespace zerofleet::device {

class CpuDevice : public Device {
 public:
  // Profiles its ops if OpProfile::kVariable is set in the environment (profile/op_profile.h).
  explicit CpuDevice(int threads);
  int threads() const { return pool_.threads(); }        // may be fewer than requested, see ThreadPool
  OpProfile* profile() const { return profile_.get(); }  // null unless ops are profiled

  std::string kind() const override { return "cpu"; }
  std::string description() const override;
  std::vector<Fact> arithmetic() const override;
  std::string unique_id() const override { return ""; }
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Reservation>> ReserveHost(int64_t bytes) override { return Reserve(bytes); }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  void Copy(Stream& stream, void* to, const void* from, int64_t bytes) override;
  bool host_addressable() const override { return true; }
  double datasheet_flops(DType) const override { return 0; }
  std::optional<DeviceMemory> memory() const override { return std::nullopt; }
  Ops& ops() override {
    if (profiled_ != nullptr) return *profiled_;
    return ops_;
  }
  Device& host() override { return *this; }

 private:
  ThreadPool pool_;
  CpuOps ops_;
  std::unique_ptr<OpProfile> profile_;  // both null unless ops are profiled
  std::unique_ptr<ProfiledOps> profiled_;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_CPU_DEVICE_H_
