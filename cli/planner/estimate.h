// One rank of a configuration on a cluster: memory by the engine's own plan, traffic by its schedule, time by roofline.
#ifndef ZEROFLEET_CLI_PLANNER_ESTIMATE_H_
#define ZEROFLEET_CLI_PLANNER_ESTIMATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/planner/cluster.h"
#include "cli/planner/roofline.h"
#include "cli/planner/traffic.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// Bytes of each space, and whether they fit.
struct MemoryNeed {
  int64_t device = 0, host = 0;  // of the plan
  int64_t outside = 0;           // on the device as well
  int64_t device_limit = 0, host_limit = 0;
  int64_t shared_limit = 0;  // of both together, where they are the same memory; 0: they are not

  int64_t device_sum() const { return device + outside; }
  // Bytes of a process whose two spaces are the same memory.
  int64_t all() const { return device + host + outside; }
  bool fits() const {
    return device_sum() <= device_limit && host <= host_limit && (shared_limit == 0 || all() <= shared_limit);
  }
  // "fits", or what is short and by how much.
  std::string Verdict() const;
};

// Rank 0's memory plan. Scratch is the CPU device's with one thread; a GPU's differs by what its attention needs.
absl::StatusOr<memory::MemoryPlan> PlanMemoryOf(const v1::Config& config);
MemoryNeed NeedOf(const memory::MemoryPlan& plan, const Cluster& cluster);

struct RankEstimate {
  memory::MemoryPlan plan;
  MemoryNeed need;
  StepTraffic traffic = {};
  double host_link_bytes = 0;  // copied to the host and back in a step
  StepTime time = {};
  double tokens_per_second = 0;  // of all ranks
};

Rates RatesOf(const Cluster& cluster);

absl::StatusOr<RankEstimate> EstimateRank(const v1::Config& config, const Cluster& cluster);

struct LargestModel {
  v1::ModelConfig model;
  double parameters = 0;
};
// The largest model of ShapeOf's shapes with these settings that fits; nothing if not even the smallest does.
absl::StatusOr<std::optional<LargestModel>> FindLargestModel(const v1::Config& config, const Cluster& cluster);

// The longest model.context at which the model fits with these settings, in steps of 64 tokens that a tensor group can
// divide; kMostContext at most. Nothing if one step is too many. A family that learns its positions has more parameters
// the longer it is.
absl::StatusOr<std::optional<int64_t>> FindLongestContext(const v1::Config& config, const Cluster& cluster);

// The least number of devices on which the model fits with these settings, by whole nodes from one node on; nothing if
// it does not on any number. Each rank keeps its sequences per step.
absl::StatusOr<std::optional<int64_t>> FindSmallestCluster(const v1::Config& config, const Cluster& cluster);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_ESTIMATE_H_
