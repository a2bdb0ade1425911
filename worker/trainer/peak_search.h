// Finding the peak that a run's MFU is measured against: the datasheet's, or what its ranks reach in a product.
#ifndef ZEROFLEET_WORKER_TRAINER_PEAK_SEARCH_H_
#define ZEROFLEET_WORKER_TRAINER_PEAK_SEARCH_H_

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"
#include "worker/trainer/view_parts.h"

namespace zerofleet::trainer {

// A process has one PeakSearch for all its views. Its results go to the view's PeakMeter. Every call except Leave is
// collective.
class PeakSearch {
 public:
  // `careful`: whether a run is long enough to be worth the time (PeakMeter::IsWorthCare); the same on every rank.
  PeakSearch(device::Device& device, device::DType dtype, bool careful)
      : device_(device), dtype_(dtype), careful_(careful) {}

  // Called when a view begins. Ranks that were in the last view know what its ranks reached on average in careful
  // measurements; a new rank is assumed to reach as much. In a recovery, where measuring holds up the steps after it, a
  // rank measures only if this process has not measured yet, and briefly.
  absl::Status Begin(ViewParts& view, bool in_recovery);
  // Called between steps: measures again after some steps, the same ones on all ranks; never on an asynchronous device.
  absl::Status Again(ViewParts& view);
  // Called when the view ends.
  void Leave(const ViewParts& view);

 private:
  // Measures `rounds` of a product (0: none; kAsManyAsItTakes: until the result is reliable), or takes the datasheet's
  // peak if there is one. All ranks measure at the same time, so that they share the machine as they will in training.
  absl::Status Measure(ViewParts& view, int rounds);

  device::Device& device_;
  const device::DType dtype_;
  const bool careful_;
  double mine_ = 0;  // FLOP/s of this process; 0 until it was measured
  double last_ = 0;  // FLOP/s of a rank of the last view, on average; 0 before the first
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_PEAK_SEARCH_H_
