// Ranks of a view that have no session at the moment, for example because the coordinator was restarted; see
// adoption.h.
#ifndef ZEROFLEET_COORDINATOR_AWAY_H_
#define ZEROFLEET_COORDINATOR_AWAY_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// How a worker's client reconnects, in seconds: the longest that one attempt may take, and the longest pauses after an
// attempt that fails and after a stream that breaks. gRPC lengthens the pause after an attempt by at most a fifth. The
// client takes these values from here (services/rpc/grpc_common.cc, services/session/session_machine.cc), because the
// time to wait for it follows from them.
inline constexpr double kConnectSeconds = 5, kConnectPauseSeconds = 2, kStreamPauseSeconds = 2;
inline constexpr double kConnectPauseJitter = 1.2;

// How long a restarted coordinator waits for a running fleet to come back: three heartbeat timeouts, but at least the
// time of two whole attempts of a worker to connect, of which the first may have begun too early.
double AdoptionSeconds(const v1::RestartConfig& restart);

// How long to wait for the ranks that are away now: AdoptionSeconds, but while nobody at all is heard (isolation.h),
// and so nothing shows that they could come back, at least as long as a fleet may take to form.
double TimeToComeBack(const Fleet& fleet);

// The id of a rank without a session.
inline MemberId AwayId(int rank) { return kAwayIds + static_cast<MemberId>(rank); }
inline bool IsAway(const Member& member) { return member.state == MemberState::kAway; }

// Marks a rank that has no session from here on, and may come back.
void GoAway(Fleet& fleet, Member& member);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_AWAY_H_
