// A device without memory whose ops do nothing: for a dry run, which shows what a model or an engine would do.
//
// Reservations have addresses that one may compute with but must never read. Every size is granted, and every event has
// been reached. The order of calls is the real one; no result is.
#ifndef ZEROFLEET_WORKER_DEVICE_DRY_DRY_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_DRY_DRY_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "worker/device/device.h"
#include "worker/device/dry/dry_ops.h"

namespace zerofleet::device {

class DryDevice : public Device {
 public:
  std::string kind() const override { return "dry"; }
  std::string description() const override { return "dry run"; }
  std::string unique_id() const override { return ""; }
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Reservation>> ReserveHost(int64_t bytes) override { return Reserve(bytes); }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  void Copy(Stream&, void*, const void*, int64_t) override {}
  bool host_addressable() const override { return false; }
  double datasheet_flops(DType) const override { return 0; }
  std::optional<DeviceMemory> memory() const override { return std::nullopt; }
  Ops& ops() override { return ops_; }
  Device& host() override { return *this; }

  // An address of the device's memory, which is never read.
  static void* Address();

 private:
  DryOps ops_;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_DRY_DRY_DEVICE_H_
