// Places are compared with a walk, and ranges may overlap.
#include "coordinator/skipped_samples.h"

#include <gtest/gtest.h>

#include <set>

namespace zerofleet::coordinator {
namespace {

TEST(SkippedSamplesTest, WithoutAnyThePlacesFollowEachOther) {
  const SkippedSamples none;
  EXPECT_EQ(none.Place(7, 0), 7);
  EXPECT_EQ(none.Place(7, 5), 12);
  EXPECT_EQ(none.After(7, 5), 12);
  EXPECT_TRUE(none.ranges().empty());
}

// Compares with a walk, place by place.
TEST(SkippedSamplesTest, PlacesAreThoseThatAWalkFinds) {
  SkippedSamples skipped;
  std::set<int64_t> left_out;
  for (const auto& [begin, end] : {std::pair{30, 40}, {10, 12}, {38, 45}, {5, 5}, {45, 46}, {12, 13}, {60, 50}}) {
    skipped.Add(begin, end);
    for (int place = begin; place < end; ++place) left_out.insert(place);
  }
  for (int64_t from = 0; from < 60; ++from) {
    int64_t place = from;
    for (int64_t count = 0; count < 50; ++count, ++place) {
      while (left_out.contains(place)) ++place;
      ASSERT_EQ(skipped.Place(from, count), place) << from << " " << count;
      EXPECT_EQ(skipped.After(from, count + 1), place + 1);
    }
    EXPECT_EQ(skipped.After(from, 0), from);
  }
}

TEST(SkippedSamplesTest, RangesAreSortedAndApart) {
  SkippedSamples skipped;
  skipped.Add(30, 40);
  skipped.Add(10, 12);
  skipped.Add(12, 13);
  skipped.Add(35, 45);
  const SkippedSamples again(skipped.ranges());
  ASSERT_EQ(again.ranges().size(), 2);
  EXPECT_EQ(again.ranges()[0].begin(), 10);
  EXPECT_EQ(again.ranges()[0].end(), 13);
  EXPECT_EQ(again.ranges()[1].begin(), 30);
  EXPECT_EQ(again.ranges()[1].end(), 45);
}

// The steps of a run that goes back and skips are those of one that skipped from the start.
TEST(SkippedSamplesTest, GoingBackOrNotMakesNoDifference) {
  SkippedSamples skipped;
  skipped.Add(24, 48);
  constexpr int64_t kBatch = 12;
  const int64_t resumed = SkippedSamples().After(0, 2 * kBatch);  // before anything was skipped
  for (int64_t step = 2; step < 9; ++step) {
    EXPECT_EQ(skipped.After(resumed, (step - 2) * kBatch), skipped.After(0, step * kBatch)) << step;
  }
}

}  // namespace
}  // namespace zerofleet::coordinator
