// The second step of a checkpoint's commit: when every rank's shard is durable, the manifest is written.
#ifndef ZEROFLEET_COORDINATOR_COMMIT_H_
#define ZEROFLEET_COORDINATOR_COMMIT_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// One rank's shard of one step. A failed one fails the run, naming rank, path and reason: a run whose checkpoints do
// not reach storage must not look healthy. So does one that is not of this run: another configuration, rank, step, size
// or part of the state. What was committed before stays. With the last shard the manifest goes out.
void OnShardWritten(Fleet& fleet, Member& member, const v1::ShardWritten& shard);

// The manifest is on storage, or is not.
void OnManifestWritten(Fleet& fleet, const ManifestWritten& written, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_COMMIT_H_
