// What operators see of a partition; see ownership.h.
#include "coordinator/ownership.h"

#include <gtest/gtest.h>

namespace zerofleet::coordinator {
namespace {

TEST(OwnershipTest, RangesSurviveTheWire) {
  const std::vector<PlacedRange> ranges = {{0, 5, 0}, {7, int64_t{1} << 40, 5}};
  google::protobuf::RepeatedPtrField<v1::FlatRange> message;
  SetRanges({{1, 2, 3}}, &message);
  SetRanges(ranges, &message);
  EXPECT_EQ(RangesOf(message), ranges);
}

TEST(OwnershipTest, TheDigestTellsPartitionsApart) {
  const std::vector<UnitExtent> units = {{"a", 0, 100}, {"b", 100, 107}};
  EXPECT_EQ(PartitionDigest(PartitionMap(units, 2)), PartitionDigest(PartitionMap(units, 2)));
  EXPECT_NE(PartitionDigest(PartitionMap(units, 2)), PartitionDigest(PartitionMap(units, 3)));
  EXPECT_NE(PartitionDigest(PartitionMap(units, 2)), PartitionDigest(PartitionMap({{"a", 0, 99}, {"b", 99, 107}}, 2)));
}

TEST(OwnershipTest, EveryRankHasItsUnitsAndBytes) {
  const PartitionMap partition({{"a", 0, 100}, {"b", 100, 107}}, 2);
  const v1::PartitionStatus status = PartitionStatusOf(partition, {{"parameters", 2, false}, {"master", 4, true}});
  ASSERT_EQ(status.units_size(), 2);
  EXPECT_EQ(status.units(1).name(), "b");
  EXPECT_EQ(status.units(1).flat_begin(), 100);
  ASSERT_EQ(status.ranks_size(), 2);
  // a is padded to 128 elements, b to 64.
  EXPECT_EQ(RangesOf(status.ranks(0).owned()), (std::vector<PlacedRange>{{0, 64, 0}, {100, 107, 64}}));
  EXPECT_EQ(RangesOf(status.ranks(1).owned()), (std::vector<PlacedRange>{{64, 100, 0}, {107, 107, 64}}));
  ASSERT_EQ(status.ranks(1).states_size(), 2);
  EXPECT_EQ(status.ranks(1).states(0).bytes(), 2 * 192);
  EXPECT_EQ(status.ranks(1).states(1).name(), "master");
  EXPECT_EQ(status.ranks(1).states(1).bytes(), 4 * 96);
}

}  // namespace
}  // namespace zerofleet::coordinator
