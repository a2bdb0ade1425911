// Ranks of a view that have no session at the moment, since the coordinator was started again; see adoption.h.
#ifndef ZEROFLEET_COORDINATOR_AWAY_H_
#define ZEROFLEET_COORDINATOR_AWAY_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// How a worker's client connects again, in seconds: the longest that one attempt may take, and the longest pauses
// behind an attempt that fails and behind a stream that breaks. gRPC adds a fifth to the former at most. The client
// takes them from here (services/rpc/grpc_common.cc, services/session/session_machine.cc), since how long it is waited
// for follows from them.
inline constexpr double kConnectSeconds = 5, kConnectPauseSeconds = 2, kStreamPauseSeconds = 2;
inline constexpr double kConnectPauseJitter = 1.2;

// How long a coordinator that was started again waits for a running fleet to come back: three heartbeat timeouts, and
// at least as long as two whole attempts of a worker to connect take, of which the first may have begun too early.
double AdoptionSeconds(const v1::RestartConfig& restart);

// The same for ranks that are away now. Nothing shows that they could come back while nobody at all is heard
// (isolation.h): then as long as a fleet may take to form.
double TimeToComeBack(const Fleet& fleet);

// The id of a rank without a session.
inline MemberId AwayId(int rank) { return kAwayIds + static_cast<MemberId>(rank); }
inline bool IsAway(const Member& member) { return member.state == MemberState::kAway; }

// The rank has no session from here on, and may come back.
void GoAway(Fleet& fleet, Member& member);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_AWAY_H_
