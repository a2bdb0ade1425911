// One rank's memory plan for `zerofleet plan`: every buffer a run will reserve, as a table and as JSON.
#ifndef ZEROFLEET_CLI_PLANNER_PLAN_MEMORY_H_
#define ZEROFLEET_CLI_PLANNER_PLAN_MEMORY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/planner/plan_checkpointing.h"
#include "cli/report/terminal.h"
#include "nlohmann/json.hpp"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/trainer/save_choice.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct RankMemory {
  memory::MemoryPlan plan;
  trainer::SaveChoice saves;  // how the plan's checkpoints are written
  // A GPU's memory once it is set up and before the plan's rows are reserved: context, libraries and workspaces take
  // memory in addition to the rows.
  std::optional<device::DeviceMemory> device;
  std::vector<CheckpointingCost> checkpointing;
  int64_t tensor_bytes = 0;  // sent to its tensor group in a step
  double fraction = 1;       // offload.fraction, resolved to a number if it is auto
};

// The memory of rank 0, as `zerofleet train` would run it on this machine. The other ranks differ by less than the
// padding.
absl::StatusOr<RankMemory> PlanRankZero(const v1::Config& config);

// The rows in bytes, their sums per space and category, the bytes of model states per parameter, what either kind of
// save needs, and the kinds of checkpointing.
std::string MemoryPlanText(const v1::Config& config, const RankMemory& rank, double parameters,
                           const Terminal& terminal = {});
nlohmann::ordered_json MemoryPlanJson(const v1::Config& config, const RankMemory& rank);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PLAN_MEMORY_H_
