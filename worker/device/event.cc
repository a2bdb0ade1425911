// Waiting for an event with a limit; see device.h.
#include "absl/time/clock.h"
#include "base/clock.h"
#include "worker/device/device.h"

namespace zerofleet::device {

bool Event::SettledWithin(double seconds) const {
  const double start = Clock::Real().MonotonicSeconds();
  while (true) {
    const absl::StatusOr<bool> reached = Reached();
    if (!reached.ok() || *reached) return true;
    if (Clock::Real().MonotonicSeconds() - start >= seconds) return false;
    absl::SleepFor(absl::Microseconds(50));
  }
}

}  // namespace zerofleet::device
