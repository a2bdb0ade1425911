// Which ranks are given up for a set of broken pairs.
#include "coordinator/broken_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zerofleet::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BrokenPairs, OneOfEachPairIsGivenUp) {
  EXPECT_THAT(CoverOf({}), IsEmpty());
  EXPECT_THAT(CoverOf({{0, 1}}), ElementsAre(1));
  EXPECT_THAT(CoverOf({{0, 1}, {2, 3}}), ElementsAre(1, 3));
}

TEST(BrokenPairs, ARankThatManyCannotReachIsGivenUpAlone) {
  EXPECT_THAT(CoverOf({{0, 1}, {0, 2}, {0, 3}}), ElementsAre(0));
  EXPECT_THAT(CoverOf({{0, 2}, {1, 2}, {2, 3}}), ElementsAre(2));
  EXPECT_THAT(CoverOf({{0, 2}, {1, 2}, {2, 3}, {4, 5}}), ElementsAre(2, 5));
}

TEST(BrokenPairs, BothDirectionsAreOnePair) {
  EXPECT_EQ(PairOf(3, 1), PairOf(1, 3));
  EXPECT_EQ(Describe({PairOf(3, 1), PairOf(1, 3), PairOf(0, 2)}), "ranks 0 and 2, 1 and 3 cannot reach each other");
}

TEST(BrokenPairs, ALineNamesSoMany) {
  std::set<BrokenPair> pairs;
  for (int rank = 1; rank <= 20; ++rank) pairs.insert({0, rank});
  EXPECT_THAT(Describe(pairs), ::testing::EndsWith("0 and 8, and 12 more pairs cannot reach each other"));
}

}  // namespace
}  // namespace zerofleet::coordinator
