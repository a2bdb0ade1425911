// Saves that get no further: a rank's write of its shard, and the coordinator's own commit or removal; and its own
// reading of a checkpoint that a rank could not load.
//
// Storage may be slow, so nothing is judged by how long it takes: a rank tells with its heartbeats how many bytes it
// has written, the coordinator's storage how many it has read, and what stands still for
// checkpoint.stall_timeout_seconds is named. A rank is lost for it. Of a commit people are told, and training goes on
// for as long as no rank needs its outcome; a commit that stands still for as long as a fleet may take to form on top
// of that ends the run, and so does a reading.
#ifndef ZEROFLEET_COORDINATOR_SAVE_STALLS_H_
#define ZEROFLEET_COORDINATOR_SAVE_STALLS_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// "the commit"
const char* Name(PendingCommit::Stage stage);

// At every tick.
void CheckSaves(Fleet& fleet, double now);

// The coordinator's storage has got on with what it is doing.
void OnStorageProgress(Fleet& fleet, double now);

// Time that the machine slept, or the coordinator did not run, is nobody's delay.
void ForgiveSaves(Fleet& fleet, double delay, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_SAVE_STALLS_H_
