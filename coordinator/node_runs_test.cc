// Nodes counted and counted out again.
#include "coordinator/node_runs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::coordinator {
namespace {

using ::testing::ElementsAreArray;

v1::Assignment AssignmentOf(const std::vector<int>& nodes) {
  const View view{1, AxesOf(1, static_cast<int>(nodes.size())), nodes,
                  PartitionMap({{"w", 0, 64}}, static_cast<int>(nodes.size()))};
  v1::Assignment assignment;
  assignment.set_world_size(view.world_size());
  SetNodeRuns(view, &assignment);
  return assignment;
}

TEST(NodeRuns, ComeBackAsTheyWere) {
  for (const std::vector<int>& nodes : std::vector<std::vector<int>>{
           {0}, {0, 0, 0}, {0, 1, 2}, {0, 0, 1, 1, 2, 2, 3}, {0, 1, 1, 1, 2, 3, 3}, {0, 0, 1, 2, 2}}) {
    const auto told = NodesOf(AssignmentOf(nodes));
    ASSERT_TRUE(told.ok()) << told.status();
    EXPECT_THAT(*told, ElementsAreArray(nodes));
  }
}

TEST(NodeRuns, OfEqualNodesAreOne) {
  std::vector<int> nodes;
  for (int rank = 0; rank < 10'000; ++rank) nodes.push_back(rank / 8);
  const v1::Assignment assignment = AssignmentOf(nodes);
  ASSERT_EQ(assignment.nodes_size(), 1);
  EXPECT_EQ(assignment.nodes(0).nodes(), 1250);
  EXPECT_EQ(assignment.nodes(0).ranks(), 8);
  EXPECT_LT(assignment.ByteSizeLong(), 16u);
}

TEST(NodeRuns, AreRefusedUnlessTheyMakeTheWorld) {
  const auto refused = [](int world_size, const std::vector<std::pair<int, int>>& runs, int members = 0) {
    v1::Assignment assignment;
    assignment.set_world_size(world_size);
    for (const auto& [count, ranks] : runs) {
      v1::NodeRun& run = *assignment.add_nodes();
      run.set_nodes(count);
      run.set_ranks(ranks);
    }
    for (int i = 0; i < members; ++i) assignment.add_members();
    return NodesOf(assignment).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_FALSE(refused(6, {{1, 2}, {4, 1}}));
  EXPECT_TRUE(refused(7, {{1, 2}, {4, 1}}));
  EXPECT_TRUE(refused(6, {}));
  EXPECT_TRUE(refused(2, {{0, 8}, {1, 2}}));
  EXPECT_TRUE(refused(2, {{-1, -2}}));
  EXPECT_TRUE(refused(INT32_MAX, {{INT32_MAX, INT32_MAX}, {INT32_MAX, INT32_MAX}, {INT32_MAX, INT32_MAX}}));
  EXPECT_TRUE(refused(kMostRanks + 1, {{kMostRanks + 1, 1}}));
  EXPECT_FALSE(refused(kMostRanks, {{kMostRanks, 1}}));
  EXPECT_TRUE(refused(4, {{1, 2}}, 2));  // members or runs, not both
}

}  // namespace
}  // namespace zerofleet::coordinator
