// Ranks of a view that have no session at the moment, since the coordinator was started again; see adoption.h.
#ifndef ZEROFLEET_COORDINATOR_AWAY_H_
#define ZEROFLEET_COORDINATOR_AWAY_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// How long a coordinator that was started again waits for a running fleet to come back.
double AdoptionSeconds(const v1::RestartConfig& restart);

// The id of a rank without a session.
inline MemberId AwayId(int rank) { return kAwayIds + static_cast<MemberId>(rank); }
inline bool IsAway(const Member& member) { return member.state == MemberState::kAway; }

// The stream of a rank that had come back broke once more: it may come back again.
void GoAway(Fleet& fleet, Member& member);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_AWAY_H_
