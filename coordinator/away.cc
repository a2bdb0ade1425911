// Waiting for ranks without a session; see away.h.
#include "coordinator/away.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {
namespace {

constexpr double kAdoptionHeartbeatTimeouts = 3, kLeastAdoptionSeconds = 5;

}  // namespace

double AdoptionSeconds(const v1::RestartConfig& restart) {
  return std::max(kAdoptionHeartbeatTimeouts * restart.heartbeat_timeout_seconds(), kLeastAdoptionSeconds);
}

void GoAway(Fleet& fleet, Member& member) {
  fleet.Emit(CloseSession{member.id}, absl::StrCat(NameOf(member), " may come back once more"));
  fleet.members.Rename(member, AwayId(member.rank));
  member.state = MemberState::kAway;
  member.heartbeats = member.failed = false;
  member.progress.clear();
}

}  // namespace zerofleet::coordinator
