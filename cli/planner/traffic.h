// What a rank sends in a step, from the schedule of collectives that the engine itself posts, divided by the links that
// it takes.
#ifndef ZEROFLEET_CLI_PLANNER_TRAFFIC_H_
#define ZEROFLEET_CLI_PLANNER_TRAFFIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// Bytes that one rank sends: to ranks of its own node (peer) and of other nodes (link). `operations` counts gathers and
// reductions; an all-reduce counts as one of each.
struct LinkBytes {
  double peer = 0, link = 0, operations = 0;
  double sum() const { return peer + link; }
  LinkBytes operator+(const LinkBytes& other) const {
    return {peer + other.peer, link + other.link, operations + other.operations};
  }
  LinkBytes operator*(double times) const { return {peer * times, link * times, operations * times}; }
};

struct StepTraffic {
  LinkBytes gather = {}, reduce = {};  // in the data group: parameters and the step's scalars; gradients
  LinkBytes tensor = {};               // in the tensor group
  LinkBytes sum() const { return gather + reduce + tensor; }
  double largest_unit = 0;  // the largest unit's share of `gather` and `reduce`
};

// The traffic of rank 0 on nodes of `node_gpus` ranks, with the teams that a run of `config` would form there.
absl::StatusOr<StepTraffic> PlanTraffic(const v1::Config& config, int64_t node_gpus);

// `config` with this number of micro-batches per step.
v1::Config WithMicroBatches(const v1::Config& config, int64_t micro_batches);
// `config` with this number of workers, each with as many sequences per step as before.
v1::Config WithWorkers(const v1::Config& config, int64_t workers);
int64_t MicroBatchesOf(const v1::Config& config);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_TRAFFIC_H_
