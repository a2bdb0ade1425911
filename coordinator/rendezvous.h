// How members come together: one binary, one layout, one schedule, or a line that says who differs from whom.
#ifndef ZEROFLEET_COORDINATOR_RENDEZVOUS_H_
#define ZEROFLEET_COORDINATOR_RENDEZVOUS_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// The first message of a session that does not take up an earlier one (adoption.h). The first member sets what the
// others must equal: a differing build while the fleet forms fails the run, since the coordinator cannot know which of
// the two is right; later it is refused alone. A member beyond the fleet's size is kept as a spare, up to
// restart.spares, or refused.
void OnHello(Fleet& fleet, MemberId id, const v1::Hello& hello, double now);

// Tells the session that this coordinator knows it, with the run's configuration.
void SendWelcome(Fleet& fleet, MemberId id, const std::string& reason);

// The member has built its layout. With the last one the view is formed.
void OnReady(Fleet& fleet, Member& member, const v1::Ready& ready, double now);

// The fleet has had its time to form.
void CheckFormTimeout(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_RENDEZVOUS_H_
