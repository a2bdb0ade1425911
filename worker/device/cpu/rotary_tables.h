// Cosines and sines of rotary positions, computed once.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_ROTARY_TABLES_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_ROTARY_TABLES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace zerofleet::device {

struct RotaryTable {
  std::vector<float> frequencies;
  std::vector<float> cosines, sines;  // (positions, frequencies): for the angle position * frequency in fp32
};

class RotaryTables {
 public:
  // A table for `frequencies` with at least `positions` positions. Any thread.
  std::shared_ptr<const RotaryTable> Of(std::span<const float> frequencies, int64_t positions);

 private:
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<const RotaryTable>> tables_ ABSL_GUARDED_BY(mutex_);  // one per `frequencies`
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_ROTARY_TABLES_H_
