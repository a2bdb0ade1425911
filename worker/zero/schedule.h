// The static schedule: every collective of a step, in order, known before step 1.
//
// The ranks compare its digest when they join, so that no difference in input or build can make them wait for different
// collectives. The schedule is what the engine posts in a step on a device without memory, so it is stated nowhere
// else.
#ifndef ZEROFLEET_WORKER_ZERO_SCHEDULE_H_
#define ZEROFLEET_WORKER_ZERO_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/zero/integrity.h"
#include "worker/zero/layout.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::zero {

struct ScheduledCollective {
  std::string group;  // group of the mesh
  collective::Operation operation;
  std::string unit;
  int64_t bytes;  // whole (gathered) size
  bool operator==(const ScheduledCollective&) const = default;
};

// A step whose collectives are wanted; borrowed for the call.
struct PlannedStep {
  const v1::ModelConfig& model;
  const v1::OptimizerConfig& optimizer;
  const model::ModelSpec& spec;  // this rank's part of the model
  const ZeroLayout& layout;
  // Type, buckets and parts are taken from the layout, not from here. The sizes of the tensor group's collectives
  // depend on the shape of a micro-batch.
  model::ModelRun run = {};
  StepChecks checks = {};
};

// The data group's collectives, in their order, then the tensor group's, in theirs. Returns the errors of
// Model::Create.
absl::StatusOr<std::vector<ScheduledCollective>> StepSchedule(const PlannedStep& step);

// The bytes that rank 0 of a group of `size` ranks on one node sends for the schedule's collectives in that group.
int64_t BytesSent(const std::vector<ScheduledCollective>& schedule, const std::string& group, int size);

// Two schedules are equal exactly when their texts are.
std::string DescribeSchedule(const std::vector<ScheduledCollective>& schedule);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SCHEDULE_H_
