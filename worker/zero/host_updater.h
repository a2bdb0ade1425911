// The optimizer's states in host memory, updated by the host's cores (ZeRO-Offload, Ren et al. 2021, §4 and §5.1).
//
// What crosses the link is what the paper's cut leaves (§3.2): a gradient of the compute type goes down when its unit
// has been reduced, a parameter of the compute type comes back when it has been updated, 4 bytes a step for each that
// this rank owns. The update runs tile by tile: while one is computed, the one before is on its way to the device.
#ifndef ZEROFLEET_WORKER_ZERO_HOST_UPDATER_H_
#define ZEROFLEET_WORKER_ZERO_HOST_UPDATER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/zero/updater.h"

namespace zerofleet::zero {

class HostUpdater : public Updater {
 public:
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);

  explicit HostUpdater(const UpdaterParts& parts);

  TrainingState& state() override { return state_; }
  absl::Status Initialize(uint64_t seed) override;
  absl::Status TakeGradient(int unit, device::Tensor gradient) override;
  absl::Status Update(const device::StepControl* control, device::Tensor gradients, device::Tensor parameters) override;
  absl::Status FinishUnit(int unit) override;
  absl::Status Publish(device::Tensor parameters) override;
  LinkTraffic link() const override { return link_; }

 private:
  // Memory of one tile of updated parameters, and the copy to the device that still reads it.
  struct Tile {
    device::Tensor memory;
    std::shared_ptr<device::Event> sent;
  };
  static constexpr int kTiles = 2;
  // What a core's cache holds while it is computed and sent.
  static constexpr int64_t kTileElements = int64_t{1} << 18;
  static int64_t TileElements(const ZeroLayout& layout);

  // Fills tile after tile of a unit with `make(begin, count, tile)`, elements of the unit's piece, and sends each to
  // its place in `parameters`.
  template <typename Make>
  absl::Status SendUnit(int unit, device::Tensor parameters, const Make& make);

  const UpdaterParts parts_;
  device::Device& host_;
  const std::unique_ptr<device::Stream> host_stream_;
  TrainingState state_;
  const device::Tensor gradients_;  // of what this rank owns, as split vectors are stored
  std::array<Tile, kTiles> tiles_;
  int next_tile_ = 0;
  device::StepControl control_;  // of the step that is being updated
  device::Tensor parameters_;    // on the device
  LinkTraffic link_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_HOST_UPDATER_H_
