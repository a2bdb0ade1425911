// Evicting the wrong, or nobody; see disagreement.h. The first report decides: with it the view is over, and those of
// the other ranks are stale.
#include "coordinator/disagreement.h"

#include <algorithm>
#include <string>
#include <vector>

#include "coordinator/recovery.h"

namespace zerofleet::coordinator {

bool OnDisagreement(Fleet& fleet, const v1::Failure& failure, double now) {
  constexpr char kCounter[] = "integrity";
  const std::set<int> named(failure.disagreement().ranks().begin(), failure.disagreement().ranks().end());
  std::vector<int> ranks;
  std::vector<MemberId> members;
  for (const Member& member : fleet.members) {
    if (!named.contains(member.rank)) continue;
    ranks.push_back(member.rank);
    members.push_back(member.id);
  }
  if (ranks.empty()) return false;
  fleet.memory_is_doubted = true;
  // Not all can be wrong.
  if (failure.disagreement().undecided() || members.size() == fleet.members.size()) {
    ++fleet.counters.rank_failures[kCounter];
    BreakView(fleet, absl::UnavailableError(failure.message()), ranks, now);
  } else {
    LoseMembers(fleet, members, failure.message(), kCounter, now);
  }
  return true;
}

}  // namespace zerofleet::coordinator
