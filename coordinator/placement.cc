// The arithmetic of nodes and teams; see placement.h.
#include "coordinator/placement.h"

#include <string.h>  // strverscmp

#include <algorithm>
#include <charconv>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace zerofleet::coordinator {

std::vector<int> RankOrder(const std::vector<MemberPlace>& members) {
  std::vector<int> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const MemberPlace &one = members[a], &other = members[b];
    if (const int nodes = strverscmp(one.node.c_str(), other.node.c_str()); nodes != 0) return nodes < 0;
    if (const int hosts = strverscmp(one.host.c_str(), other.host.c_str()); hosts != 0) return hosts < 0;
    return one.pid < other.pid;
  });
  return order;
}

std::vector<int> NodesOf(const std::vector<std::string>& names) {
  std::vector<int> nodes;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    const bool another = rank > 0 && names[rank] != names[rank - 1];
    nodes.push_back(rank == 0 ? 0 : nodes.back() + another);
  }
  return nodes;
}

std::optional<std::pair<int, int>> GroupAcrossNodes(const Axes& axes, std::string_view axis,
                                                    const std::vector<int>& nodes) {
  for (int rank = 0; rank < axes.world_size(); ++rank) {
    if (axes.At(rank, axis) != 0) continue;
    const std::vector<int> group = axes.GroupOf(rank, axis);
    const bool across =
        std::any_of(group.begin(), group.end(), [&](int member) { return nodes[member] != nodes[group.front()]; });
    if (across) return std::pair(group.front(), group.back());
  }
  return std::nullopt;
}

int AutoTeam(const std::vector<int>& nodes, int tensor) {
  ZF_CHECK(!nodes.empty());
  std::vector<int> data_ranks(nodes.back() + 1);  // data ranks on each node
  for (int node : nodes) ++data_ranks[node];
  for (int& count : data_ranks) count = std::max(1, count / tensor);
  if (data_ranks.size() == 1) return std::min(data_ranks[0], kMostAutoTeam);
  int team = kMostAutoTeam;
  while (std::any_of(data_ranks.begin(), data_ranks.end(), [team](int count) { return count % team != 0; })) --team;
  return team;
}

int ReplicaShift(const std::vector<int>& nodes) {
  const int ranks = static_cast<int>(nodes.size());
  int largest = 0, run = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    run = rank > 0 && nodes[rank] == nodes[rank - 1] ? run + 1 : 1;
    largest = std::max(largest, run);
  }
  return largest == ranks ? (ranks > 1 ? 1 : 0) : largest;
}

absl::StatusOr<int> ConfiguredTeam(const v1::ParallelConfig& parallel) {
  const std::string& text = parallel.team();
  if (text.empty() || text == "auto") return 0;
  int team = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), team);
  if (error == std::errc() && stop == text.data() + text.size() && team >= 1 && team <= kMostRanks) return team;
  return absl::InvalidArgumentError(
      absl::StrCat("must be auto or 1 to ", kMostRanks, ", got \"", absl::CHexEscape(text.substr(0, 60)), "\""));
}

int MostFlightEntries(int ranks) {
  constexpr int kMostTogether = 1 << 16, kLeastEach = 4;
  return std::max(kLeastEach, kMostTogether / std::max(1, ranks));
}

}  // namespace zerofleet::coordinator
