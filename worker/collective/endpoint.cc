// The checks of a group that every backend makes before it joins.
#include "worker/collective/endpoint.h"

#include "absl/strings/str_cat.h"

namespace zerofleet::collective {

absl::Status CheckGroup(const CollectiveGroup& group) {
  const auto invalid = [&](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat("collectives: group ", group.name, ": ", text...));
  };
  if (group.addresses.empty()) return invalid("has no ranks");
  if (group.rank < 0 || group.rank >= group.size()) return invalid("rank ", group.rank, " of ", group.size());
  if (group.team < 0) return invalid("ranks per team must be >= 0, got ", group.team);
  if (!group.nodes.empty() && group.nodes.size() != group.addresses.size()) {
    return invalid("the nodes of ", group.nodes.size(), " ranks are given, it has ", group.size());
  }
  return absl::OkStatus();
}

Topology TopologyOf(const CollectiveGroup& group) {
  return Topology(group.rank, group.size(), group.team, group.nodes);
}

}  // namespace zerofleet::collective
