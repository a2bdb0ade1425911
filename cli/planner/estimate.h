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

// The bytes that one rank needs in each space, and whether they fit.
struct MemoryNeed {
  int64_t device = 0, host = 0;  // the plan's bytes
  int64_t outside = 0;           // device memory in addition to the plan
  int64_t device_limit = 0, host_limit = 0;
  int64_t shared_limit = 0;  // for both spaces together, where they are the same memory; 0: they are not

  int64_t device_sum() const { return device + outside; }
  // The bytes of the whole process, where both spaces are the same memory.
  int64_t all() const { return device + host + outside; }
  bool fits() const {
    return device_sum() <= device_limit && host <= host_limit && (shared_limit == 0 || all() <= shared_limit);
  }
  // "fits", or what is short and by how much.
  std::string Verdict() const;
};

// Rank 0's memory plan. Its scratch memory is that of the CPU device with one thread; a GPU's differs by what its
// attention needs.
absl::StatusOr<memory::MemoryPlan> PlanMemoryOf(const v1::Config& config);
MemoryNeed NeedOf(const memory::MemoryPlan& plan, const Cluster& cluster);

struct RankEstimate {
  memory::MemoryPlan plan;
  MemoryNeed need;
  StepTraffic traffic = {};
  double host_link_bytes = 0;  // copied to the host and back in a step, in total
  StepTime time = {};
  double tokens_per_second = 0;  // over all ranks
};

Rates RatesOf(const Cluster& cluster);

absl::StatusOr<RankEstimate> EstimateRank(const v1::Config& config, const Cluster& cluster);

struct LargestModel {
  v1::ModelConfig model;
  double parameters = 0;
};
// The largest of ShapeOf's models that fits with these settings; nothing if not even the smallest does.
absl::StatusOr<std::optional<LargestModel>> FindLargestModel(const v1::Config& config, const Cluster& cluster);

// The longest model.context at which the model fits with these settings: a multiple of 64 and of the tensor degree, at
// most kMostContext. Nothing if the smallest multiple is too long. In a family with learned positions a longer context
// also means more parameters.
absl::StatusOr<std::optional<int64_t>> FindLongestContext(const v1::Config& config, const Cluster& cluster);

// The smallest number of devices on which the model fits with these settings, in whole nodes from one node on; nothing
// if it fits on no number. Each rank keeps its number of sequences per step.
absl::StatusOr<std::optional<int64_t>> FindSmallestCluster(const v1::Config& config, const Cluster& cluster);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_ESTIMATE_H_
