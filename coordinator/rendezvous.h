// How members join: all must have one binary, one configuration and one kind of device, or a line says who differs from
// whom.
#ifndef ZEROFLEET_COORDINATOR_RENDEZVOUS_H_
#define ZEROFLEET_COORDINATOR_RENDEZVOUS_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// The first message of a session that does not continue an earlier one (adoption.h). The first member sets what the
// others must equal: a worker that differs while the fleet forms fails the run, since the coordinator cannot know which
// of the two is right; later only that worker is refused. A member beyond the fleet's size is kept as a spare, up to
// restart.spares, or refused.
void OnHello(Fleet& fleet, MemberId id, const v1::Hello& hello, double now);

// Sends the session the run's configuration, as a sign that this coordinator knows it.
void SendWelcome(Fleet& fleet, MemberId id, const std::string& reason);

// The member has done all that does not depend on a view. With the last member's Ready the view is formed.
void OnReady(Fleet& fleet, Member& member, const v1::Ready& ready, double now);

// If the time to form is over, goes on without what is missing where it may, or fails the run.
void CheckFormTimeout(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_RENDEZVOUS_H_
