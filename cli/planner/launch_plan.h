// What `zerofleet train` knows about its memory before it starts: printed in brief, refused if it cannot fit, and
// compared at the end with what was measured.
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
  memory::MemoryPlan plan;  // rank 0's; on a GPU too its scratch is the CPU device's, so that the launcher uses no GPU
  double parameters = 0, sent_bytes = 0;
  int64_t outside_bytes = kCpuOutsideBytes;  // of a process, in addition to the plan
  bool on_cpu = true;
};

// The plan of a run whose workers are all on this machine.
absl::StatusOr<LaunchPlan> PlanLaunch(const v1::Config& config);

// InvalidArgument where a limit of the configuration is exceeded; ResourceExhausted, with advice, where workers on the
// CPU need more memory than `usable_bytes`.
absl::Status CheckLaunch(const v1::Config& config, const LaunchPlan& launch, int64_t usable_bytes);

// "plan: 10.8M parameters, stage 2 on 2 workers, ..." and, on a new line, the memory by category; wrapped to `columns`.
std::string LaunchText(const v1::Config& config, const LaunchPlan& launch, int columns);

// The planned memory of a rank, for the run's summary.
PlannedMemory PlannedOf(const LaunchPlan& launch);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_LAUNCH_PLAN_H_
