// What follows from a commit, whenever it succeeds: what a recovery goes back to, the state that must be durable, and
// what watchers are told.
#ifndef ZEROFLEET_COORDINATOR_COMMITTED_H_
#define ZEROFLEET_COORDINATOR_COMMITTED_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// `commit`, which is pending no more, has come to `written`.
void NoteCommitted(Fleet& fleet, const ManifestWritten& written, const PendingCommit& commit);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_COMMITTED_H_
