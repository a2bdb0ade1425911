// State written by N ranks is read by M ranks, every element from its place; see reshard.h.
#include "coordinator/reshard.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {
namespace {

using Vectors = std::vector<std::vector<int64_t>>;  // by rank: the flat index of each stored element

std::vector<std::vector<PlacedRange>> AllRanges(const PartitionMap& map) {
  std::vector<std::vector<PlacedRange>> ranges;
  for (int rank = 0; rank < map.world_size(); ++rank) ranges.push_back(map.StoredRanges(rank));
  return ranges;
}

Vectors Stored(const PartitionMap& map) {
  Vectors stored(map.world_size());
  for (int rank = 0; rank < map.world_size(); ++rank) {
    for (const PlacedRange& range : map.StoredRanges(rank)) {
      for (int64_t i = range.flat_begin; i < range.flat_end; ++i) stored[rank].push_back(i);
    }
  }
  return stored;
}

Vectors Move(const Vectors& from, const PartitionMap& from_map, const PartitionMap& to_map) {
  Vectors to(to_map.world_size());
  for (int rank = 0; rank < to_map.world_size(); ++rank) {
    std::vector<PlacedRange> target = to_map.StoredRanges(rank);
    to[rank].assign(target.empty() ? 0 : target.back().offset + target.back().elements(), -1);
    absl::StatusOr<std::vector<RangeCopy>> copies = Reshard(AllRanges(from_map), target);
    EXPECT_TRUE(copies.ok()) << copies.status();
    if (!copies.ok()) return to;
    for (const RangeCopy& copy : *copies) {
      for (int64_t i = 0; i < copy.length; ++i) {
        to[rank].at(copy.target_offset + i) = from.at(copy.source).at(copy.source_offset + i);
      }
    }
  }
  return to;
}

TEST(ReshardTest, TheSamePartitionIsOneCopyARange) {
  std::vector<std::vector<PlacedRange>> sources = {{{0, 10, 0}}, {{10, 20, 0}}};
  auto copies = Reshard(sources, {{10, 20, 0}});
  ASSERT_TRUE(copies.ok());
  EXPECT_EQ(*copies, (std::vector<RangeCopy>{{1, 0, 0, 10}}));
}

TEST(ReshardTest, ARangeAcrossTwoSourcesIsTwoCopies) {
  auto copies = Reshard({{{0, 10, 5}}, {{10, 20, 0}}}, {{8, 13, 100}});
  ASSERT_TRUE(copies.ok());
  EXPECT_EQ(*copies, (std::vector<RangeCopy>{{0, 13, 100, 2}, {1, 0, 102, 3}}));
}

TEST(ReshardTest, CopiesReadEachSourceForwards) {
  auto copies = Reshard({{{0, 4, 4}, {4, 8, 0}}}, {{0, 8, 0}});
  ASSERT_TRUE(copies.ok());
  EXPECT_EQ(*copies, (std::vector<RangeCopy>{{0, 0, 4, 4}, {0, 4, 0, 4}}));
}

TEST(ReshardTest, OverlappingSourcesAreReadOnce) {
  auto copies = Reshard({{{0, 10, 0}}, {{0, 20, 0}}}, {{0, 20, 0}});
  ASSERT_TRUE(copies.ok());
  EXPECT_EQ(*copies, (std::vector<RangeCopy>{{0, 0, 0, 10}, {1, 10, 10, 10}}));
}

TEST(ReshardTest, AMissingElementIsDataLossAndNamed) {
  auto copies = Reshard({{{0, 10, 0}}, {{12, 20, 0}}}, {{5, 15, 0}});
  EXPECT_EQ(copies.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(copies.status().message().find("element 10 "), std::string::npos) << copies.status();
}

TEST(ReshardTest, AnyWorldSizeReadsAnyOther) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<UnitExtent> units;
    int64_t begin = 0;
    for (int u = 1 + random() % 5; u > 0; --u) {
      int64_t size = 1 + random() % 600;
      units.push_back({absl::StrCat("unit", u), begin, begin + size});
      begin += size;
    }
    PartitionMap n(units, 1 + random() % 9), m(units, 1 + random() % 9);
    Vectors there = Move(Stored(n), n, m);
    EXPECT_EQ(there, Stored(m));
    EXPECT_EQ(Move(there, m, n), Stored(n));
  }
}

}  // namespace
}  // namespace zerofleet::coordinator
