// The limits that a configuration sets to a rank's memory, and what to change where a plan exceeds them.
#ifndef ZEROFLEET_WORKER_TRAINER_MEMORY_LIMITS_H_
#define ZEROFLEET_WORKER_TRAINER_MEMORY_LIMITS_H_

#include "absl/status/status.h"
#include "worker/memory/arena.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

// ResourceExhausted, in one line with the shortfall, the largest buffer and settings that need less, if the plan needs
// more than memory.device_limit or memory.host_limit; late rows count too.
absl::Status CheckMemoryLimits(const v1::Config& config, const memory::MemoryPlan& plan);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_MEMORY_LIMITS_H_
