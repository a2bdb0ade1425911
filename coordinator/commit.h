// The second step of a checkpoint's commit: when every rank's shard is durable, the manifest is written.
#ifndef ZEROFLEET_COORDINATOR_COMMIT_H_
#define ZEROFLEET_COORDINATOR_COMMIT_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// One rank's shard of one step. With the last one the manifest goes out, or the save has failed (failed_save.h). One
// that is not of this run ends it: another configuration, rank, step, size or part of the state.
void OnShardWritten(Fleet& fleet, Member& member, const v1::ShardWritten& shard, double now);

// The manifest is on storage, or is not.
void OnManifestWritten(Fleet& fleet, const ManifestWritten& written, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_COMMIT_H_
