// The arithmetic of nodes, teams and groups; see placement.h.
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

std::vector<Coordinates> CoordinatesOf(const std::vector<int>& nodes, int tensor, int team) {
  ZF_CHECK(tensor >= 1);
  ZF_CHECK(team >= 1);
  std::vector<Coordinates> ranks;
  for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
    const int data = rank / tensor;
    ranks.push_back({.node = nodes[rank], .team = data / team, .data = data, .tensor = rank % tensor});
  }
  return ranks;
}

int GroupNumber(const std::string& group, const Coordinates& at) {
  return group == kDataGroup ? at.tensor : group == kTensorGroup ? at.data : 0;
}

std::optional<std::pair<int, int>> GroupAcrossNodes(const std::vector<Coordinates>& ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].data != ranks[rank - 1].data || ranks[rank].node == ranks[rank - 1].node) continue;
    const int first = static_cast<int>(rank) - ranks[rank].tensor;
    int last = static_cast<int>(rank);
    while (last + 1 < static_cast<int>(ranks.size()) && ranks[last + 1].data == ranks[rank].data) ++last;
    return std::pair(first, last);
  }
  return std::nullopt;
}

int AutoTeam(const std::vector<int>& nodes, int tensor) {
  ZF_CHECK(!nodes.empty());
  std::vector<int> data_ranks(nodes.back() + 1);  // of each node
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
