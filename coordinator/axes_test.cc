// Ranks along axes, and their groups; see axes.h.
#include "coordinator/axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace zerofleet::coordinator {
namespace {

using ::testing::ElementsAre;

TEST(AxesTest, ATensorGroupIsConsecutiveRanks) {
  const Axes axes = AxesOf(/*tensor=*/2, /*world_size=*/8);
  EXPECT_THAT(axes.list(), ElementsAre(Axis{"tensor", 2}, Axis{"data", 4}));
  EXPECT_EQ(axes.At(5, kTensorGroup), 1);
  EXPECT_EQ(axes.At(5, kDataGroup), 2);
  EXPECT_EQ(axes.Text(5), "data 2, tensor 1");
  EXPECT_THAT(axes.GroupOf(5, kTensorGroup), ElementsAre(4, 5));
  EXPECT_THAT(axes.GroupOf(5, kDataGroup), ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(axes.GroupNumber(5, kTensorGroup), 2);
  EXPECT_EQ(axes.GroupNumber(5, kDataGroup), 1);
  EXPECT_EQ(axes.GroupNumber(5, "pipeline"), 0);
}

TEST(AxesTest, WithoutTensorParallelismTheDataGroupIsTheView) {
  v1::ParallelConfig parallel;
  parallel.set_tensor(1);
  const Axes axes = AxesOf(parallel, 3);
  EXPECT_THAT(axes.GroupOf(1, kDataGroup), ElementsAre(0, 1, 2));
  EXPECT_THAT(axes.GroupOf(1, kTensorGroup), ElementsAre(1));
  EXPECT_EQ(axes.Degree(kDataGroup), 3);
}

// With any number of axes: along each, the groups are disjoint and make up the view, and a rank is identified by its
// numbers.
TEST(AxesTest, EveryAxisDividesTheViewIntoGroups) {
  const Axes axes({{"tensor", 2}, {"context", 3}, {"data", 4}, {"pipeline", 5}});
  ASSERT_EQ(axes.world_size(), 120);
  std::set<std::string> places;
  for (int rank = 0; rank < axes.world_size(); ++rank) {
    places.insert(axes.Text(rank));
    for (const Axis& axis : axes.list()) {
      const std::vector<int> group = axes.GroupOf(rank, axis.name);
      ASSERT_EQ(static_cast<int>(group.size()), axis.degree);
      EXPECT_EQ(group[axes.At(rank, axis.name)], rank);
      for (int other : group) {
        EXPECT_EQ(axes.GroupOf(other, axis.name), group);
        EXPECT_EQ(axes.GroupNumber(other, axis.name), axes.GroupNumber(rank, axis.name));
      }
    }
  }
  EXPECT_EQ(places.size(), 120u);
  for (const Axis& axis : axes.list()) {
    std::set<int> numbers;
    for (int rank = 0; rank < axes.world_size(); ++rank) numbers.insert(axes.GroupNumber(rank, axis.name));
    EXPECT_EQ(static_cast<int>(numbers.size()), 120 / axis.degree);
    EXPECT_EQ(*numbers.rbegin(), 120 / axis.degree - 1);
  }
}

}  // namespace
}  // namespace zerofleet::coordinator
