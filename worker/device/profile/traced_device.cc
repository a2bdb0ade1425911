// See traced_device.h.
#include "worker/device/profile/traced_device.h"

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "worker/device/profile/profiled_ops.h"

namespace zerofleet::device {
namespace {

class TracedDevice : public Device {
 public:
  TracedDevice(std::unique_ptr<Device> device, OpSink& sink)
      : device_(std::move(device)), sink_(sink), ops_(device_->ops(), sink, ProfiledOps::Where::kHost) {
    ZF_CHECK(&device_->host() == device_.get());
  }

  std::string kind() const override { return device_->kind(); }
  std::string description() const override { return device_->description(); }
  std::vector<Fact> arithmetic() const override { return device_->arithmetic(); }
  std::string unique_id() const override { return device_->unique_id(); }
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes) override { return device_->Reserve(bytes); }
  absl::StatusOr<std::unique_ptr<Reservation>> ReserveHost(int64_t bytes) override {
    return device_->ReserveHost(bytes);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return device_->CreateStream(); }
  absl::StatusOr<std::unique_ptr<Stream>> CreateUrgentStream() override { return device_->CreateUrgentStream(); }
  void Copy(Stream& stream, void* to, const void* from, int64_t bytes) override {
    const double began = Clock::Real().MonotonicSeconds();
    device_->Copy(stream, to, from, bytes);
    sink_.Add(kCopyName, {.began = began,
                          .seconds = Clock::Real().MonotonicSeconds() - began,
                          .flops = 0,
                          .bytes = static_cast<double>(bytes)});
  }
  bool host_addressable() const override { return device_->host_addressable(); }
  double datasheet_flops(DType dtype) const override { return device_->datasheet_flops(dtype); }
  std::optional<DeviceMemory> memory() const override { return device_->memory(); }
  Ops& ops() override { return ops_; }
  Device& host() override { return *this; }

 private:
  const std::unique_ptr<Device> device_;
  OpSink& sink_;
  ProfiledOps ops_;
};

}  // namespace

std::unique_ptr<Device> TraceOps(std::unique_ptr<Device> device, OpSink& sink) {
  if (!device->host_addressable()) return device;
  return std::make_unique<TracedDevice>(std::move(device), sink);
}

}  // namespace zerofleet::device
