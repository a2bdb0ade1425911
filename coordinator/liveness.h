// Whether members are alive: silence, ended sessions, reported failures. recovery.h decides what a loss means.
#ifndef ZEROFLEET_COORDINATOR_LIVENESS_H_
#define ZEROFLEET_COORDINATOR_LIVENESS_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// At every tick, before anything is judged: a coordinator that was itself late (the machine slept, say) gives members a
// full timeout to be heard, and counts none of that time against anybody.
void ForgiveOwnDelay(Fleet& fleet, double now);
// The same if it was late for so long that clients have given up their connections; call it before judging the end of
// one.
void ForgiveLongDelay(Fleet& fleet, double now);

// Judges every member's silence, and members that are alive but do not get where they are awaited: to a collective, to
// the end, out of a lost view, through loading.
void CheckLiveness(Fleet& fleet, double now);

// A session ended. Before the fleet has formed this only frees the place.
void OnSessionClosed(Fleet& fleet, Member& member, const std::string& cause, double now);

// A rank reports an error from which it cannot continue, or that ranks disagree (disagreement.h). An error that a
// peer's loss would explain (a collective that failed) is held back for a heartbeat timeout, so that messages name the
// cause and not the first rank affected. A spare that reports an error is lost alone.
void OnFailure(Fleet& fleet, Member& member, const v1::Failure& failure, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_LIVENESS_H_
