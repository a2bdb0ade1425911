// Resolves `offload.fraction: auto` to a number, so that as much of the optimizer's states as possible stays on the
// device.
#ifndef ZEROFLEET_CLI_PLANNER_FRACTION_H_
#define ZEROFLEET_CLI_PLANNER_FRACTION_H_

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// Where offload.fraction is auto, returns `config` with the smallest fraction, a multiple of 2^-20, at which rank 0's
// plan is within memory.device_limit; 1 if none is, which a run refuses. Otherwise `config` unchanged. `device` must
// have as many threads as a worker's, since scratch memory grows with them. The bits of a run do not depend on the
// fraction.
absl::StatusOr<v1::Config> WithPlannedFraction(const v1::Config& config, device::Device& device);
// The same for workers with `threads` threads each on the CPU.
absl::StatusOr<v1::Config> WithPlannedFraction(const v1::Config& config, int threads);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_FRACTION_H_
