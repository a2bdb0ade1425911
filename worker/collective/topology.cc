// Teams, nodes and the bytes they cost. See topology.h.
#include "worker/collective/topology.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace zerofleet::collective {

Range ShardRange(int64_t count, int size, int rank) {
  const int64_t part = (count + size - 1) / size;
  const int64_t begin = std::min<int64_t>(count, part * rank);
  return {begin, std::min<int64_t>(count, begin + part)};
}

Range Within(const Range& range, int64_t begin, int64_t count) {
  return {std::min(range.end, range.begin + begin), std::min(range.end, range.begin + begin + count)};
}

Topology::Topology(int rank, int size, int team, const std::vector<int>& nodes)
    : rank_(rank), size_(size), team_(team <= 1 ? size : std::min(team, size)) {
  ZF_CHECK(rank >= 0 && rank < size);
  ZF_CHECK(nodes.empty() || static_cast<int>(nodes.size()) == size);
  std::map<int, int> index_of;
  for (int each = 0; each < size; each++) {
    const int node = nodes.empty() ? 0 : nodes[each];
    const int index = index_of.emplace(node, static_cast<int>(index_of.size())).first->second;
    if (index == this->nodes()) members_.emplace_back();
    node_.push_back(index);
    place_.push_back(static_cast<int>(members_[index].size()));
    members_[index].push_back(each);
  }
}

int Topology::SizeOf(int team) const { return std::min(team_, size_ - FirstOf(team)); }

std::vector<int> Topology::Collected(int rank) const {
  std::vector<int> shards;
  for (int shard = 0; shard < size_; shard++) {
    if (Collector(TeamOf(rank), shard) == rank) shards.push_back(shard);
  }
  return shards;
}

int Topology::Source(int shard, int to) const {
  if (SameNode(shard, to)) return shard;
  // Ranks at the same place on their nodes exchange with each other, so that all ranks of a node share the traffic.
  const std::vector<int>& mates = Mates(to);
  const int entry = mates[place_[shard] % mates.size()];
  return entry == to ? shard : entry;
}

Traffic ReduceScatterTraffic(const Topology& topology, int64_t count, int64_t element_bytes) {
  const int rank = topology.rank(), team = topology.TeamOf(rank);
  Traffic traffic;
  const auto send = [&](int to, int64_t bytes) {
    if (to == rank) return;
    traffic.sent += bytes;
    if (!topology.SameNode(rank, to)) traffic.to_other_nodes += bytes;
  };
  for (int shard = 0; shard < topology.size(); shard++) {
    const int64_t elements = ShardRange(count, topology.size(), shard).size();
    const int collector = topology.Collector(team, shard);
    send(collector, elements * element_bytes);
    if (collector == rank) send(shard, elements * static_cast<int64_t>(sizeof(float)));
  }
  return traffic;
}

Traffic AllGatherTraffic(const Topology& topology, int64_t count, int64_t element_bytes) {
  const int rank = topology.rank(), mates = static_cast<int>(topology.Mates(rank).size()) - 1;
  const auto bytes = [&](int shard) { return ShardRange(count, topology.size(), shard).size() * element_bytes; };
  const int64_t to_other_nodes = bytes(rank) * (topology.nodes() - 1);
  Traffic traffic{.sent = bytes(rank) * mates + to_other_nodes, .to_other_nodes = to_other_nodes};
  for (int shard = 0; shard < topology.size(); shard++) {
    const bool enters_here = !topology.SameNode(shard, rank) && topology.Source(shard, rank) == shard;
    if (enters_here) traffic.sent += bytes(shard) * mates;
  }
  return traffic;
}

}  // namespace zerofleet::collective
