// What `zerofleet train` knows of its memory before it starts: said in brief, refused if it cannot fit, and laid beside
// what was measured at the end.
#ifndef ZEROFLEET_CLI_PLANNER_LAUNCH_PLAN_H_
#define ZEROFLEET_CLI_PLANNER_LAUNCH_PLAN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/planner/estimate.h"
#include "cli/planner/machine.h"
#include "cli/report/run_record.h"
#include "worker/memory/arena.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct LaunchPlan {
  memory::MemoryPlan plan;  // of rank 0; on a GPU with the CPU device's scratch, so that the launcher uses no GPU
  double parameters = 0, sent_bytes = 0;
  int64_t outside_bytes = kCpuOutsideBytes;  // of a process, beside the plan
  bool on_cpu = true;
};

// A run of all workers on this machine.
absl::StatusOr<LaunchPlan> PlanLaunch(const v1::Config& config);

// InvalidArgument where a limit of the configuration is exceeded; ResourceExhausted where workers on the CPU need more
// memory than `usable_bytes`, with settings that need less.
absl::Status CheckLaunch(const v1::Config& config, const LaunchPlan& launch, int64_t usable_bytes);

// "plan: 10.8M parameters, stage 2 on 2 workers, ..." and, from a new line on, what takes the memory; wrapped to
// `columns`.
std::string LaunchText(const v1::Config& config, const LaunchPlan& launch, int columns);

// A rank's row for the summary.
PlannedMemory PlannedOf(const LaunchPlan& launch);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_LAUNCH_PLAN_H_
