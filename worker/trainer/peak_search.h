// Finding the peak that a run's MFU is measured against: the datasheet's, or what its ranks reach in a product.
#ifndef ZEROFLEET_WORKER_TRAINER_PEAK_SEARCH_H_
#define ZEROFLEET_WORKER_TRAINER_PEAK_SEARCH_H_

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"
#include "worker/trainer/view_parts.h"

namespace zerofleet::trainer {

// One process has one, through all views. What is found goes to the view's PeakMeter. Each call but Leaves is
// collective.
class PeakSearch {
 public:
  // `careful`: whether a run is long enough to be worth the time (PeakMeter::IsWorthCare); the same on every rank.
  PeakSearch(device::Device& device, device::DType dtype, bool careful)
      : device_(device), dtype_(dtype), careful_(careful) {}

  // A view begins. Whoever was in the last one knows what its ranks reached with care, in the mean, and a rank that is
  // new is taken to reach as much: in a recovery its own measurement is brief, and only made if this process has none,
  // since it holds up the steps after it.
  absl::Status Begin(ViewParts& view, bool in_recovery);
  // Between steps, at numbers on which all ranks agree; an asynchronous device is not measured again.
  absl::Status Again(ViewParts& view);
  // The view ends.
  void Leave(const ViewParts& view);

 private:
  // `rounds` of a product; 0: none, kAsManyAsItTakes: until the result is reliable. The datasheet's peak if there is
  // one. Otherwise all ranks measure at the same time, so that they share the machine as they will in training.
  absl::Status Measure(ViewParts& view, int rounds);

  device::Device& device_;
  const device::DType dtype_;
  const bool careful_;
  double mine_ = 0;  // FLOP/s of this process, as far as it was measured
  double last_ = 0;  // of a rank of the last view, in the mean; 0 before the first
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_PEAK_SEARCH_H_
