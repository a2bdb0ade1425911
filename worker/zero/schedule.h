// The static schedule: every collective of a step, in order, known before step 1.
//
// The ranks compare its digest when they join, so that no input and no build can make them wait for different things.
// It is what the engine posts when it runs a step on a device without memory, so it is stated nowhere else.
#ifndef ZEROFLEET_WORKER_ZERO_SCHEDULE_H_
#define ZEROFLEET_WORKER_ZERO_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/model/checkpointing.h"
#include "worker/model/spec.h"
#include "worker/zero/integrity.h"
#include "worker/zero/layout.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::zero {

struct ScheduledCollective {
  std::string group;  // of the mesh
  collective::Operation operation;
  std::string unit;
  int64_t bytes;  // whole (gathered) size
  bool operator==(const ScheduledCollective&) const = default;
};

// The schedule of a step of `model`, whose tensors `spec` has, under `layout`, that makes these checks and recomputes
// what `checkpointing` does not keep: the data group's collectives, in their order, then the tensor group's, in theirs.
// The latter's sizes depend on the shape of a micro-batch, and `sequence` is Sharing's. Errors as from Model::Create.
absl::StatusOr<std::vector<ScheduledCollective>> StepSchedule(
    const v1::ModelConfig& model, const v1::OptimizerConfig& optimizer, const model::ModelSpec& spec,
    const ZeroLayout& layout, const StepChecks& checks = {}, const model::Checkpointing& checkpointing = {},
    int64_t sequences = 1, int64_t time = 1, bool sequence = false);

// What rank 0 of a group of `size` ranks on one node sends for the schedule's collectives in it.
int64_t BytesSent(const std::vector<ScheduledCollective>& schedule, const std::string& group, int size);

// Two schedules are equal exactly when their texts are.
std::string DescribeSchedule(const std::vector<ScheduledCollective>& schedule);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SCHEDULE_H_
