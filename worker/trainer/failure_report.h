// A worker's failure as it is reported to the coordinator, with what the status carries: who disagrees, which step
// diverged.
#ifndef ZEROFLEET_WORKER_TRAINER_FAILURE_REPORT_H_
#define ZEROFLEET_WORKER_TRAINER_FAILURE_REPORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/parallel/mesh.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

// `step` is the last completed step.
v1::Failure FailureOf(const absl::Status& status, int64_t step);

// If `status` names a rank that a collective of one of the view's groups could not reach, notes that rank of the view
// in `failure`.
void NameUnreachable(const absl::Status& status, const parallel::Mesh& mesh, v1::Failure& failure);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_FAILURE_REPORT_H_
