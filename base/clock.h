// Time as a dependency: everything that waits or measures takes a Clock, so that tests own it.
#ifndef ZEROFLEET_BASE_CLOCK_H_
#define ZEROFLEET_BASE_CLOCK_H_

#include <atomic>

#include "absl/time/time.h"

namespace zerofleet {

class Clock {
 public:
  virtual ~Clock() = default;

  // Wall-clock time, for timestamps people read.
  virtual absl::Time Now() const = 0;

  // Seconds on a clock that only moves forward, from an arbitrary start; for durations.
  virtual double MonotonicSeconds() const = 0;

  // The machine's clock; lives as long as the process.
  static const Clock& Real();
};

// A clock that moves only when told; starts at the Unix epoch and 0 seconds.
class FakeClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + absl::Seconds(seconds_.load()); }
  double MonotonicSeconds() const override { return seconds_; }
  void Advance(double seconds) { seconds_ += seconds; }  // any thread

 private:
  std::atomic<double> seconds_ = 0;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_CLOCK_H_
