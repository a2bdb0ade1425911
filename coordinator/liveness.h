// Whether members are alive: silence, ended sessions, reported failures. What a loss means: recovery.h.
#ifndef ZEROFLEET_COORDINATOR_LIVENESS_H_
#define ZEROFLEET_COORDINATOR_LIVENESS_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// At every tick, before anything is judged: a coordinator that was itself late (the machine slept, say) gives members a
// full timeout to be heard, and counts none of that time against anybody.
void ForgiveOwnDelay(Fleet& fleet, double now);
// The same where it was late for so long that clients have given their connections up, before one's end is judged.
void ForgiveLongDelay(Fleet& fleet, double now);

// Judges every member's silence, and those that are there and do not come where they are awaited: to a collective, to
// the end, out of a view that is lost, through loading.
void CheckLiveness(Fleet& fleet, double now);

// A session ended. Before the fleet has formed that only frees the place.
void OnSessionClosed(Fleet& fleet, Member& member, const std::string& cause, double now);

// A rank reports an error it cannot go on from, or that ranks disagree (disagreement.h). One that a peer's loss would
// explain (a collective that failed) is held back for a heartbeat timeout, so that the run's failure names the cause
// and not the first to feel it.
void OnFailure(Fleet& fleet, Member& member, const v1::Failure& failure, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_LIVENESS_H_
