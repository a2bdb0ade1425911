// What each kind of activation checkpointing would cost a run, for `zerofleet plan`: bytes kept, FLOPs spent again.
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
  v1::ActivationConfig activation;  // as the keys take it
  bool chosen = false;              // by the configuration
  int64_t activation_bytes = 0, host_bytes = 0;
  double recomputed_flops = 0;  // of products, of one worker in one step
  double share_of_model = 0;    // of the step's model FLOPs
};

// What one worker of `config` on `device` keeps with each kind: none, selective, segments of about the square root of
// the layers, block, and the configuration's own if it is another; each that keeps inputs also with them split (in a
// tensor group), and on the host. By falling bytes.
absl::StatusOr<std::vector<CheckpointingCost>> PlanCheckpointing(const v1::Config& config, device::Device& device);

std::string CheckpointingText(const std::vector<CheckpointingCost>& costs, const Terminal& terminal);
nlohmann::ordered_json CheckpointingJson(const std::vector<CheckpointingCost>& costs);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PLAN_CHECKPOINTING_H_
