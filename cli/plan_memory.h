// One rank's memory plan for `zerofleet plan`: every buffer a run will reserve, to read and as JSON.
#ifndef ZEROFLEET_CLI_PLAN_MEMORY_H_
#define ZEROFLEET_CLI_PLAN_MEMORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "worker/memory/arena.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet {

// Of rank 0, as `zerofleet train` would run it on this machine. The other ranks' differ by less than the padding.
absl::StatusOr<MemoryPlan> PlanRankZero(const v1::Config& config);

// Rows in bytes, a sum per space and category, and what the model states come to per parameter.
std::string MemoryPlanText(const v1::Config& config, const MemoryPlan& plan, double parameters);
nlohmann::ordered_json MemoryPlanJson(const v1::Config& config, const MemoryPlan& plan);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_PLAN_MEMORY_H_
