// Whether a worker and its coordinator mean the same partition of the training state.
#ifndef ZEROFLEET_WORKER_TRAINER_PARTITION_CHECK_H_
#define ZEROFLEET_WORKER_TRAINER_PARTITION_CHECK_H_

#include "absl/status/status.h"
#include "coordinator/partition.h"
#include "worker/parallel/mesh.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

// Both sides compute who owns what with one function (PartitionMap), so this worker's result must equal its assignment.
// FailedPrecondition if it does not.
absl::Status CheckPartition(const v1::Assignment& assignment, const parallel::Group& data,
                            const coordinator::PartitionMap& partition);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_PARTITION_CHECK_H_
