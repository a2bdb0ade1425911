// Counting nodes, and counting them out again; see node_runs.h.
#include "coordinator/node_runs.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {

void SetNodeRuns(const View& view, v1::Assignment* assignment) {
  auto& runs = *assignment->mutable_nodes();
  for (int rank = 0; rank < view.world_size();) {
    int ranks = 1;
    while (rank + ranks < view.world_size() && view.nodes[rank + ranks] == view.nodes[rank]) ++ranks;
    if (runs.empty() || runs.rbegin()->ranks() != ranks) runs.Add()->set_ranks(ranks);
    runs.rbegin()->set_nodes(runs.rbegin()->nodes() + 1);
    rank += ranks;
  }
}

absl::StatusOr<std::vector<int>> NodesOf(const v1::Assignment& assignment) {
  int64_t told = assignment.members_size();
  for (const v1::NodeRun& run : assignment.nodes()) {
    const bool fits = run.nodes() >= 1 && run.ranks() >= 1 && assignment.members().empty();
    told += fits ? int64_t{run.nodes()} * run.ranks() : kMostRanks + 1;
    if (told > kMostRanks) break;
  }
  if (told != assignment.world_size() || told > kMostRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("its members or its nodes do not make ", assignment.world_size(), " ranks"));
  }
  std::vector<int> nodes;
  for (const v1::Member& member : assignment.members()) nodes.push_back(member.node());
  for (const v1::NodeRun& run : assignment.nodes()) {
    for (int node = 0; node < run.nodes(); ++node) {
      nodes.insert(nodes.end(), run.ranks(), nodes.empty() ? 0 : nodes.back() + 1);
    }
  }
  return nodes;
}

}  // namespace zerofleet::coordinator
