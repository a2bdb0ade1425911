// Reservations that are only addresses, and streams that are always done; see dry_device.h.
#include "worker/device/dry/dry_device.h"

namespace zerofleet::device {
namespace {

class DryReservation : public Reservation {
 public:
  explicit DryReservation(int64_t bytes) : bytes_(bytes) {}
  std::byte* data() const override { return static_cast<std::byte*>(DryDevice::Address()); }
  int64_t bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
};

class DryEvent : public Event {
 public:
  absl::StatusOr<bool> Reached() const override { return true; }
  absl::Status Wait() const override { return absl::OkStatus(); }
  double SecondsSince(const Event&) const override { return 0; }
};

class DryStream : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status failure() const override { return absl::OkStatus(); }
  std::shared_ptr<Event> Record() override { return std::make_shared<DryEvent>(); }
  void Wait(const Event&) override {}
};

}  // namespace

absl::StatusOr<std::unique_ptr<Reservation>> DryDevice::Reserve(int64_t bytes) {
  return std::make_unique<DryReservation>(bytes);
}

absl::StatusOr<std::unique_ptr<Stream>> DryDevice::CreateStream() { return std::make_unique<DryStream>(); }

void* DryDevice::Address() {
  alignas(64) static std::byte address[64];
  return address;
}

}  // namespace zerofleet::device
