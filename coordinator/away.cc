// Waiting for ranks without a session; see away.h.
#include "coordinator/away.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {
namespace {

constexpr double kAdoptionHeartbeatTimeouts = 3, kAttempts = 2;
constexpr double kLeastAdoptionSeconds =
    kStreamPauseSeconds + kAttempts * (kConnectSeconds + kConnectPauseJitter * kConnectPauseSeconds);

}  // namespace

double AdoptionSeconds(const v1::RestartConfig& restart) {
  return std::max(kAdoptionHeartbeatTimeouts * restart.heartbeat_timeout_seconds(), kLeastAdoptionSeconds);
}

double TimeToComeBack(const Fleet& fleet) {
  const double window = AdoptionSeconds(fleet.parameters.config.restart());
  const bool lasts = fleet.hearing.isolation && fleet.hearing.isolation->may_last;
  return lasts ? std::max(window, fleet.form_timeout_seconds()) : window;
}

void GoAway(Fleet& fleet, Member& member) {
  fleet.members.Rename(member, AwayId(member.rank));
  member.state = MemberState::kAway;
  member.heartbeats = member.failed = member.closed = false;
  member.progress.clear();
}

}  // namespace zerofleet::coordinator
