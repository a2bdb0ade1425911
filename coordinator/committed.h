// What follows when a commit succeeds: the checkpoint that a recovery goes back to, the durable state, and events for
// watchers.
#ifndef ZEROFLEET_COORDINATOR_COMMITTED_H_
#define ZEROFLEET_COORDINATOR_COMMITTED_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// `commit`, which the caller has removed from the pending ones, has succeeded with `written`.
void NoteCommitted(Fleet& fleet, const ManifestWritten& written, const PendingCommit& commit);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_COMMITTED_H_
