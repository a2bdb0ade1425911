// The rows of the plan that a step's own numbers take (step_sums.h): names and sizes.
#ifndef ZEROFLEET_WORKER_ZERO_SUM_ROWS_H_
#define ZEROFLEET_WORKER_ZERO_SUM_ROWS_H_

#include <cstdint>

#include "base/units.h"
#include "worker/device/step_control.h"
#include "worker/zero/layout.h"

namespace zerofleet::zero {

inline constexpr const char* kSumsRow = "sums";  // each micro-batch's loss and weight, each counted range's squares
inline constexpr const char* kScalarsRow = "step scalars";  // this rank's, then every rank's

// The bytes that one rank gathers from another.
inline int64_t ScalarsBytesEach(const ZeroLayout& layout) {
  return layout.chains() ? sizeof(device::ExactScalars) : sizeof(device::StepScalars);
}

inline int64_t ScalarsRowBytes(const ZeroLayout& layout) {
  return (1 + int64_t{layout.options().world_size} * layout.part().count) * ScalarsBytesEach(layout);
}

inline int64_t SumsRowBytes(const ZeroLayout& layout) {
  constexpr int64_t kBytesAtATime = 32768;  // so that the plan does not grow with a few more layers
  const int64_t of_range = layout.chains() ? sizeof(device::ExactSum) : sizeof(double);
  const int64_t losses = 2 * layout.options().micro_batches * static_cast<int64_t>(sizeof(double));
  return RoundUp(losses + layout.counted_ranges() * of_range, kBytesAtATime);
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SUM_ROWS_H_
