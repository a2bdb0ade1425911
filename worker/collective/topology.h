// How the ranks of a group are divided: into teams, which fix the order of summation, and over nodes, which fix only
// what crosses the network. No other file in this folder computes either.
//
// Order of summation, the same in every backend: ranks form teams of `team` consecutive ranks (the last may be
// shorter). Each team adds its ranks' contributions in rank order, in fp32; the teams' sums are added in team order, in
// fp32; the result is rounded once. With one team that is rank order.
//
// Splitting: an array of `count` elements is split among the ranks by ShardRange; rank r owns shard r. In each team one
// member collects shard r from its team mates: the member at r's place, r modulo `team`. A last team too short to have
// that place counts places modulo its own length.
//
// Routes of a gather: a rank sends its shard to every rank of its node, and to one rank of each other node, which
// passes it on within that node.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_TOPOLOGY_H_
#define ZEROFLEET_WORKER_COLLECTIVE_TOPOLOGY_H_

#include <cstdint>
#include <vector>

namespace zerofleet::collective {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// The part of [0, count) that `rank` of `size` owns: parts of ceil(count/size) elements, the last ones shorter or
// empty.
Range ShardRange(int64_t count, int size, int rank);

// Elements begin to begin + count - 1 of `range`, counted from its beginning, as far as it has them.
Range Within(const Range& range, int64_t begin, int64_t count);

class Topology {
 public:
  // The topology as rank `rank` of `size` sees it. `team` is CollectiveGroup::team; teams of one rank give the same
  // sums as one team, so they count as one. `nodes` are any numbers, by rank; empty: one node.
  Topology(int rank, int size, int team = 0, const std::vector<int>& nodes = {});

  int rank() const { return rank_; }
  int size() const { return size_; }

  int team() const { return team_; }  // ranks per team; size() when there is one team
  int teams() const { return (size_ + team_ - 1) / team_; }
  int TeamOf(int rank) const { return rank / team_; }
  int FirstOf(int team) const { return team * team_; }
  int SizeOf(int team) const;
  // The member of `team` that collects `shard`.
  int Collector(int team, int shard) const { return FirstOf(team) + shard % team_ % SizeOf(team); }
  // The shards that `rank` collects in its team, ascending; its own is among them.
  std::vector<int> Collected(int rank) const;

  int nodes() const { return static_cast<int>(members_.size()); }
  bool SameNode(int a, int b) const { return node_[a] == node_[b]; }
  // The ranks on the node of `rank`, ascending.
  const std::vector<int>& Mates(int rank) const { return members_[node_[rank]]; }
  // The rank from which `to` receives `shard` in a gather: the shard's owner, or a rank on `to`'s node that passes it
  // on.
  int Source(int shard, int to) const;

 private:
  int rank_, size_, team_;
  std::vector<int> node_, place_;          // by rank: its node's index, and its place among the node's members
  std::vector<std::vector<int>> members_;  // by node index
};

// Bytes that one rank sends, and how many of them leave its node.
struct Traffic {
  int64_t sent = 0, to_other_nodes = 0;
};

// What topology.rank() sends in a reduce-scatter of `count` elements of `element_bytes` each: its contributions to the
// shards that its team mates collect, and the fp32 team sums that it has collected for other teams.
Traffic ReduceScatterTraffic(const Topology& topology, int64_t count, int64_t element_bytes);

// What topology.rank() sends in an all-gather: its own shard, and the shards that it passes on.
Traffic AllGatherTraffic(const Topology& topology, int64_t count, int64_t element_bytes);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_TOPOLOGY_H_
