// Names of members; see member.h.
#include "coordinator/member.h"

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {

const char* Name(MemberState state) {
  switch (state) {
    case MemberState::kSpare: return "spare";
    case MemberState::kJoined: return "joined";
    case MemberState::kReady: return "ready";
    case MemberState::kLoading: return "loading";
    case MemberState::kTraining: return "training";
    case MemberState::kFinished: return "finished";
    case MemberState::kLost: return "lost";
    case MemberState::kAway: return "away";
  }
  return "";
}

std::string PlaceOf(const v1::Hello& hello) {
  const std::string node = hello.node_name().empty() ? "" : absl::StrCat(", node ", hello.node_name());
  return absl::StrCat("host ", hello.host(), node, ", pid ", hello.pid());
}

const std::string& NodeNameOf(const v1::Hello& hello) {
  return hello.node_name().empty() ? hello.host() : hello.node_name();
}

std::string NameOf(const Member& member) {
  const std::string who = member.rank < 0 ? "worker" : absl::StrCat("rank ", member.rank);
  return member.hello.host().empty() ? who : absl::StrCat(who, " (", PlaceOf(member.hello), ")");
}

}  // namespace zerofleet::coordinator
