// What each kind of activation checkpointing would cost a run, for `zerofleet plan`: bytes kept, FLOPs recomputed.
#ifndef ZEROFLEET_CLI_PLANNER_PLAN_CHECKPOINTING_H_
#define ZEROFLEET_CLI_PLANNER_PLAN_CHECKPOINTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/report/terminal.h"
#include "nlohmann/json.hpp"
#include "worker/device/device.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct CheckpointingCost {
  v1::ActivationConfig activation;  // as values of the configuration's keys
  bool chosen = false;              // whether it is the configuration's own
  int64_t activation_bytes = 0, host_bytes = 0;
  double recomputed_flops = 0;  // FLOPs of products that one worker recomputes in one step
  double share_of_model = 0;    // recomputed_flops as a fraction of the step's model FLOPs
};

// What one worker of `config` on `device` keeps with each kind: none, selective, segments of about the square root of
// the layers, block, and the configuration's own if it is another one. A kind that keeps inputs is listed again with
// the inputs split (in a tensor group) and with them on the host. Sorted by bytes, the most first.
absl::StatusOr<std::vector<CheckpointingCost>> PlanCheckpointing(const v1::Config& config, device::Device& device);

std::string CheckpointingText(const std::vector<CheckpointingCost>& costs, const Terminal& terminal);
nlohmann::ordered_json CheckpointingJson(const std::vector<CheckpointingCost>& costs);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PLAN_CHECKPOINTING_H_
