// Ranks, nodes and teams of fleets of many shapes; see placement.h.
#include "coordinator/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace zerofleet::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The nodes of ranks, given the number of ranks on each node.
std::vector<int> Nodes(const std::vector<int>& ranks_of_node) {
  std::vector<int> nodes;
  for (size_t node = 0; node < ranks_of_node.size(); ++node) {
    nodes.insert(nodes.end(), ranks_of_node[node], static_cast<int>(node));
  }
  return nodes;
}

TEST(PlacementTest, RanksDoNotDependOnWhoJoinedFirst) {
  std::vector<MemberPlace> members = {{"b", "b", 7}, {"a", "a", 9}, {"b", "b", 3}, {"a", "a", 10}, {"c", "c", 1}};
  EXPECT_THAT(RankOrder(members), ElementsAre(1, 3, 2, 0, 4));
  std::vector<MemberPlace> expected;
  for (int member : RankOrder(members)) expected.push_back(members[member]);
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(members.begin(), members.end(), random);
    const std::vector<int> order = RankOrder(members);
    for (size_t rank = 0; rank < members.size(); ++rank) {
      EXPECT_EQ(members[order[rank]].host, expected[rank].host);
      EXPECT_EQ(members[order[rank]].pid, expected[rank].pid);
    }
  }
}

TEST(PlacementTest, MembersThatLookAlikeKeepTheOrderInWhichTheyJoined) {
  EXPECT_THAT(RankOrder({{"a", "a", 1}, {"a", "a", 1}, {"a", "a", 1}}), ElementsAre(0, 1, 2));
}

TEST(PlacementTest, RanksFollowNodesThenPodsWhoseNumbersAreNumbers) {
  const std::vector<MemberPlace> pods = {{"node-10", "run-3", 1},
                                         {"node-9", "run-10", 1},
                                         {"node-10", "run-1", 1},
                                         {"node-9", "run-2", 1},
                                         {"node-9", "run-2", 7}};
  EXPECT_THAT(RankOrder(pods), ElementsAre(3, 4, 1, 2, 0));
}

TEST(PlacementTest, NodesAreNumberedInRankOrder) {
  EXPECT_THAT(NodesOf({"a", "a", "b", "c", "c"}), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(NodesOf({""}), ElementsAre(0));
}

TEST(PlacementTest, TheDataRanksOfANodeWithTensorGroupsAreOneTeam) {
  EXPECT_EQ(AutoTeam(Nodes({4, 4}), /*tensor=*/2), 2);
}

TEST(PlacementTest, AGroupThatIsOnTwoNodesIsFound) {
  EXPECT_EQ(GroupAcrossNodes(AxesOf(2, 8), kTensorGroup, Nodes({4, 4})), std::nullopt);
  EXPECT_EQ(GroupAcrossNodes(AxesOf(2, 6), kTensorGroup, Nodes({3, 3})), std::pair(2, 3));
  EXPECT_EQ(GroupAcrossNodes(AxesOf(3, 6), kTensorGroup, Nodes({1, 1, 4})), std::pair(0, 2));
  // A replacement, on a node of its own, has taken a lost rank's place.
  EXPECT_EQ(GroupAcrossNodes(AxesOf(3, 6), kTensorGroup, {0, 0, 0, 1, 2, 1}), std::pair(3, 5));
  EXPECT_EQ(GroupAcrossNodes(AxesOf(2, 4), kDataGroup, Nodes({2, 2})), std::pair(0, 2));
}

TEST(PlacementTest, ALoneNodeIsOneTeamUpToEightRanks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const int team = AutoTeam(Nodes({ranks}), 1);
    EXPECT_EQ(team, ranks);
  }
  for (int ranks = 9; ranks <= 16; ++ranks) {
    EXPECT_EQ(AutoTeam(Nodes({ranks}), 1), 8);
  }
}

TEST(PlacementTest, NoTeamSpansTwoNodes) {
  EXPECT_EQ(AutoTeam(Nodes({4, 4}), 1), 4);
  EXPECT_EQ(AutoTeam(Nodes({16, 16}), 1), 8);
  EXPECT_EQ(AutoTeam(Nodes({12, 12}), 1), 6);
  EXPECT_EQ(AutoTeam(Nodes({4, 4, 2}), 1), 2);
  EXPECT_EQ(AutoTeam(Nodes({4, 3}), 1), 1);
  EXPECT_EQ(AutoTeam(Nodes({1, 1, 1}), 1), 1);
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> counts(2 + random() % 4);
    for (int& count : counts) count = 1 + static_cast<int>(random() % 20);
    const std::vector<int> nodes = Nodes(counts);
    const int team = AutoTeam(nodes, 1);
    EXPECT_LE(team, kMostAutoTeam);
    for (size_t rank = 1; rank < nodes.size(); ++rank) {
      EXPECT_TRUE(rank % team == 0 || nodes[rank] == nodes[rank - 1]);
    }
  }
}

TEST(PlacementTest, CopiesAreOnAnotherNodeWhereNoNodeHasMoreThanHalf) {
  EXPECT_EQ(ReplicaShift(Nodes({1})), 0);
  EXPECT_EQ(ReplicaShift(Nodes({4})), 1);
  for (const std::vector<int>& counts :
       std::vector<std::vector<int>>{{1, 1}, {4, 4}, {2, 2, 2}, {3, 1, 2}, {1, 2, 1, 2}, {8, 8, 8, 8}}) {
    const std::vector<int> nodes = Nodes(counts);
    const size_t shift = static_cast<size_t>(ReplicaShift(nodes));
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      EXPECT_NE(nodes[(rank + shift) % nodes.size()], nodes[rank]) << rank << " of " << nodes.size();
    }
  }
  EXPECT_NE(ReplicaShift(Nodes({3, 1})), 0);  // most ranks are on one node: at least another rank has the copies
}

TEST(PlacementTest, TheConfiguredTeamIsAutoOrANumber) {
  v1::ParallelConfig parallel;
  EXPECT_EQ(*ConfiguredTeam(parallel), 0);
  parallel.set_team("auto");
  EXPECT_EQ(*ConfiguredTeam(parallel), 0);
  parallel.set_team("16384");
  EXPECT_EQ(*ConfiguredTeam(parallel), 16384);
  for (const char* wrong : {"0", "-4", "16385", "4x", "four", " 4", "4.0", "99999999999999999999"}) {
    parallel.set_team(wrong);
    EXPECT_THAT(std::string(ConfiguredTeam(parallel).status().message()), HasSubstr("must be auto or 1 to 16384"));
  }
}

TEST(FlightEntries, AreBoundedForAllTogetherAndForEach) {
  EXPECT_EQ(MostFlightEntries(1), 1 << 16);
  EXPECT_EQ(MostFlightEntries(10'000), 6);
  EXPECT_EQ(MostFlightEntries(kMostRanks), 4);
  EXPECT_EQ(MostFlightEntries(1 << 30), 4);
}

}  // namespace
}  // namespace zerofleet::coordinator
