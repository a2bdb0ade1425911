// The partition covers the flat space exactly, whatever the sizes; see partition.h.
#include "coordinator/partition.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {
namespace {

std::vector<UnitExtent> Units(const std::vector<int64_t>& sizes) {
  std::vector<UnitExtent> units;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    units.push_back({absl::StrCat("unit", units.size()), begin, begin + size});
    begin += size;
  }
  return units;
}

// Every element has exactly one owner, and each rank's stored vector has no gap.
void ExpectExactCover(const PartitionMap& map) {
  std::vector<int> owners(map.TotalElements(), 0);
  for (int rank = 0; rank < map.world_size(); ++rank) {
    int64_t offset = 0;
    for (const PlacedRange& range : map.StoredRanges(rank)) {
      ASSERT_GT(range.elements(), 0);
      ASSERT_EQ(range.offset, offset);
      offset += range.elements();
      for (int64_t i = range.flat_begin; i < range.flat_end; ++i) ++owners[i];
    }
    ASSERT_LE(offset, map.TotalShardElements());
  }
  for (int64_t i = 0; i < map.TotalElements(); ++i) ASSERT_EQ(owners[i], 1) << "element " << i;
}

TEST(PartitionTest, OneRankOwnsAll) {
  PartitionMap map(Units({100, 7}), 1);
  EXPECT_EQ(map.Owned(0, 0), (PlacedRange{0, 100, 0}));
  EXPECT_EQ(map.Owned(1, 0), (PlacedRange{100, 107, 128}));
  EXPECT_EQ(map.StoredRanges(0), (std::vector<PlacedRange>{{0, 100, 0}, {100, 107, 100}}));
}

TEST(PartitionTest, ShardsAreEqualAndAligned) {
  PartitionMap map(Units({1000, 33}), 3);
  EXPECT_EQ(map.PaddedElements(0), 1056);  // 11 * 3 * 32
  EXPECT_EQ(map.ShardElements(0), 352);
  EXPECT_EQ(map.ShardElements(1), 32);
  EXPECT_EQ(map.ShardOffset(1), 352);
  EXPECT_EQ(map.TotalShardElements(), 384);
  EXPECT_EQ(map.TotalElements(), 1033);
}

TEST(PartitionTest, AnUnevenTailIsShorterOrEmpty) {
  PartitionMap map(Units({33}), 4);
  EXPECT_EQ(map.Owned(0, 0).elements(), 32);
  EXPECT_EQ(map.Owned(0, 1).elements(), 1);
  EXPECT_EQ(map.Owned(0, 2).elements(), 0);
  EXPECT_EQ(map.Owned(0, 3).elements(), 0);
  EXPECT_TRUE(map.StoredRanges(3).empty());
}

TEST(PartitionTest, TextTellsMapsApart) {
  EXPECT_EQ(PartitionMap(Units({5, 6}), 2).Describe(), PartitionMap(Units({5, 6}), 2).Describe());
  EXPECT_NE(PartitionMap(Units({5, 6}), 2).Describe(), PartitionMap(Units({5, 6}), 3).Describe());
  EXPECT_NE(PartitionMap(Units({5, 6}), 2).Describe(), PartitionMap(Units({6, 5}), 2).Describe());
}

TEST(PartitionTest, CoversAnySizesExactly) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<int64_t> sizes(1 + random() % 6);
    for (int64_t& size : sizes) size = 1 + random() % 700;
    PartitionMap map(Units(sizes), 1 + random() % 16);
    ExpectExactCover(map);
    for (int unit = 0; unit < map.unit_count(); ++unit) {
      EXPECT_EQ(map.ShardElements(unit) % kShardAlignment, 0);
      EXPECT_LT(map.PaddedElements(unit) - map.unit(unit).elements(), map.world_size() * kShardAlignment);
    }
  }
}

}  // namespace
}  // namespace zerofleet::coordinator
