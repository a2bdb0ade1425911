// The second step of a checkpoint's commit: when every rank's shard is durable, the manifest is written.
#ifndef ZEROFLEET_COORDINATOR_COMMIT_H_
#define ZEROFLEET_COORDINATOR_COMMIT_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// One rank's shard of one step. With the last shard the manifest is written, or the save has failed (failed_save.h). A
// shard that does not belong to this run (another configuration, rank, step, size or part of the state) ends the run.
void OnShardWritten(Fleet& fleet, Member& member, const v1::ShardWritten& shard, double now);

// The manifest was written, or could not be.
void OnManifestWritten(Fleet& fleet, const ManifestWritten& written, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_COMMIT_H_
