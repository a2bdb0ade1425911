// The static schedule: every collective of a step, in order, known before step 1.
//
// The ranks compare its digest when they join, so that no input and no build can make them wait for different things.
// The engine posts exactly this list (engine_test.cc holds the two together).
#ifndef ZEROFLEET_WORKER_ZERO_SCHEDULE_H_
#define ZEROFLEET_WORKER_ZERO_SCHEDULE_H_

#include <string>
#include <vector>

#include "worker/collective/communicator.h"
#include "worker/model/model.h"
#include "worker/parallel/mesh.h"
#include "worker/zero/layout.h"

namespace zerofleet {

struct ScheduledCollective {
  std::string group;  // of the mesh
  Operation operation;
  std::string unit;
  int64_t elements;  // whole (gathered) size; 0 for the ranks' scalars
  DType dtype;
  bool operator==(const ScheduledCollective&) const = default;
};

// The scalars every step ends with: loss, squared norm and flags of each rank.
inline constexpr const char* kScalarsUnit = "scalars";

std::vector<ScheduledCollective> StepSchedule(const Model& model, const ZeroLayout& layout);

// Two schedules are equal exactly when their texts are.
std::string DescribeSchedule(const std::vector<ScheduledCollective>& schedule);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_ZERO_SCHEDULE_H_
