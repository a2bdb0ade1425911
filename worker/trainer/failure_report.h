// A worker's failure as it tells the coordinator, with what the status carries: who disagrees, which step diverged.
#ifndef ZEROFLEET_WORKER_TRAINER_FAILURE_REPORT_H_
#define ZEROFLEET_WORKER_TRAINER_FAILURE_REPORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/parallel/mesh.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

// `step`: completed.
v1::Failure FailureOf(const absl::Status& status, int64_t step);

// The rank of the view that a collective of one of its groups could not reach, into `failure`, if the status names one.
void NameUnreachable(const absl::Status& status, const parallel::Mesh& mesh, v1::Failure& failure);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_FAILURE_REPORT_H_
