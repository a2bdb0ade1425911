// Teams, nodes, and closed forms of the bytes they cost.
#include "worker/collective/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace zerofleet::collective {
namespace {

TEST(ShardRangeTest, CoversTheArrayInOrderWithEqualPartsButTheLast) {
  for (int size : {1, 2, 3, 7, 16}) {
    for (int64_t count : {0, 1, 2, 15, 16, 17, 1000}) {
      int64_t end = 0;
      for (int rank = 0; rank < size; rank++) {
        const Range range = ShardRange(count, size, rank);
        EXPECT_EQ(range.begin, end);
        EXPECT_LE(range.size(), (count + size - 1) / size);
        end = range.end;
      }
      EXPECT_EQ(end, count);
    }
  }
}

TEST(TopologyTest, TeamsOfNoneOneOrAllRanksAreOneTeam) {
  for (const int team : {0, 1, 6, 7}) {
    const Topology topology(2, 6, team);
    EXPECT_EQ(topology.team(), 6);
    EXPECT_EQ(topology.teams(), 1);
    for (int shard = 0; shard < 6; shard++) EXPECT_EQ(topology.Collector(0, shard), shard);
  }
}

TEST(TopologyTest, AShortLastTeamSharesThePlacesItLacks) {
  const Topology topology(9, 10, 4);  // teams of 4, 4 and 2
  EXPECT_EQ(topology.teams(), 3);
  EXPECT_EQ(topology.SizeOf(2), 2);
  EXPECT_EQ(topology.Collected(1), (std::vector<int>{1, 5, 9}));
  EXPECT_EQ(topology.Collected(6), (std::vector<int>{2, 6}));
  EXPECT_EQ(topology.Collected(8), (std::vector<int>{0, 2, 4, 6, 8}));
  EXPECT_EQ(topology.Collected(9), (std::vector<int>{1, 3, 5, 7, 9}));
}

// For all sizes: in each team exactly one member collects a shard, a rank collects its own shard, and a collector has
// the owner's place wherever its team has that place.
TEST(TopologyTest, EveryTeamCollectsEveryShardOnce) {
  for (int size = 1; size <= 20; size++) {
    for (int team = 0; team <= size; team++) {
      const Topology topology(0, size, team);
      std::vector<std::vector<int>> collectors(size, std::vector<int>(topology.teams(), 0));
      for (int rank = 0; rank < size; rank++) {
        for (const int shard : topology.Collected(rank)) collectors[shard][topology.TeamOf(rank)]++;
        EXPECT_EQ(topology.Collector(topology.TeamOf(rank), rank), rank);
      }
      EXPECT_THAT(collectors, testing::Each(testing::Each(1))) << size << " ranks in teams of " << team;
    }
  }
}

struct Placement {
  int size, team;
  std::vector<int> nodes;
};

// The bytes that leave each node, by node.
std::vector<int64_t> BytesFromNodes(const Placement& placement, int64_t count, int64_t element_bytes,
                                    Traffic (*traffic)(const Topology&, int64_t, int64_t)) {
  std::vector<int64_t> bytes(1 + *std::max_element(placement.nodes.begin(), placement.nodes.end()));
  for (int rank = 0; rank < placement.size; rank++) {
    const Topology topology(rank, placement.size, placement.team, placement.nodes);
    bytes[placement.nodes[rank]] += traffic(topology, count, element_bytes).to_other_nodes;
  }
  return bytes;
}

// With T teams of g ranks on a node each, 4*S*(T-1)/T bytes leave a node for S elements. With one team over the same
// nodes, g*S*(T-1)/T elements do, in their own type.
TEST(TrafficTest, OfAReductionIsTheClosedForm) {
  const int64_t count = 48'000;
  struct Case {
    int teams, team;
  };
  for (const Case& c : {Case{2, 2}, Case{2, 3}, Case{3, 2}, Case{4, 4}, Case{2, 8}}) {
    Placement placement = {c.teams * c.team, c.team, {}};
    for (int rank = 0; rank < placement.size; rank++) placement.nodes.push_back(rank / c.team);
    for (const int64_t element_bytes : {2, 4}) {
      EXPECT_THAT(BytesFromNodes(placement, count, element_bytes, ReduceScatterTraffic),
                  testing::Each(4 * count * (c.teams - 1) / c.teams))
          << c.teams << " teams of " << c.team;
      Placement one_team = placement;
      one_team.team = 0;
      EXPECT_THAT(BytesFromNodes(one_team, count, element_bytes, ReduceScatterTraffic),
                  testing::Each(c.team * element_bytes * count * (c.teams - 1) / c.teams));
    }
  }
}

// A node's own shards leave it once for every other node.
TEST(TrafficTest, OfAGatherIsTheClosedForm) {
  const int64_t count = 60'000;
  EXPECT_THAT(BytesFromNodes({4, 0, {0, 0, 1, 1}}, count, 2, AllGatherTraffic), testing::Each(2 * count / 2));
  EXPECT_THAT(BytesFromNodes({6, 0, {0, 1, 2, 0, 1, 2}}, count, 2, AllGatherTraffic), testing::Each(2 * count / 3 * 2));
  EXPECT_THAT(BytesFromNodes({5, 2, {0, 0, 0, 1, 1}}, count, 4, AllGatherTraffic),
              testing::ElementsAre(4 * count * 3 / 5, 4 * count * 2 / 5));
}

// A rank receives a shard from its owner, or from a rank of the receiver's node that has it from the owner.
TEST(TopologyTest, AShardEntersANodeOnce) {
  for (const std::vector<int>& nodes :
       {std::vector<int>{0, 0, 1, 1}, {3, 3, 3, 9}, {0, 1, 0, 1, 0, 1, 2}, {0, 0, 0, 0}, {0, 1, 2, 3}}) {
    const int size = static_cast<int>(nodes.size());
    const Topology topology(0, size, 0, nodes);
    for (int shard = 0; shard < size; shard++) {
      std::map<int, int> entries;
      for (int to = 0; to < size; to++) {
        const int source = topology.Source(shard, to);
        if (source == shard) {
          if (nodes[to] != nodes[shard]) entries[nodes[to]]++;
          continue;
        }
        EXPECT_EQ(nodes[source], nodes[to]);
        EXPECT_EQ(topology.Source(shard, source), shard);
      }
      EXPECT_EQ(static_cast<int>(entries.size()), topology.nodes() - 1);
      for (const auto& [node, count] : entries) EXPECT_EQ(count, 1) << "shard " << shard << " to node " << node;
    }
  }
}

}  // namespace
}  // namespace zerofleet::collective
