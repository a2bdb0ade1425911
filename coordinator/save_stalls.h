// Storage work that makes no progress: a rank's write of its shard, and the coordinator's own commit, removal, or
// reading of a checkpoint that a rank could not load.
//
// Storage may be slow, so nothing is judged by how long it takes, only by progress: a rank's heartbeats say how many
// bytes it has written, and the coordinator's storage reports its own progress. A rank whose write stands still for
// checkpoint.stall_timeout_seconds is lost. If a commit, a removal or the coordinator's reading stands still, people
// are told, and training goes on for as long as no rank needs the outcome; if it stands still for
// restart.form_timeout_seconds more, the run ends.
#ifndef ZEROFLEET_COORDINATOR_SAVE_STALLS_H_
#define ZEROFLEET_COORDINATOR_SAVE_STALLS_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// "the commit"
const char* Name(PendingCommit::Stage stage);

// At every tick.
void CheckSaves(Fleet& fleet, double now);

// The coordinator's storage has made progress.
void OnStorageProgress(Fleet& fleet, double now);

// Does not count `delay`, in seconds, in which the machine slept or the coordinator did not run, against anybody.
void ForgiveSaves(Fleet& fleet, double delay, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_SAVE_STALLS_H_
