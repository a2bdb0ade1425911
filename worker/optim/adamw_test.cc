// Segments cover a piece exactly.
#include "worker/optim/adamw.h"

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet {
namespace {

TEST(DecaySegments, CoverAnyPieceWithoutOverlap) {
  ModelSpec spec = *ModelSpec::Create(TestModelConfig(2, 12, 3, 7, 31));
  for (int64_t begin = 0; begin < spec.parameters(); begin += 97) {
    int64_t end = std::min(begin + 513, spec.parameters()), next = 0;
    for (const DecaySegment& segment : DecaySegments(spec, begin, end)) {
      EXPECT_EQ(segment.offset, next);
      next += segment.count;
    }
    EXPECT_EQ(next, end - begin);
  }
}

TEST(DecaySegments, FollowTheTable) {
  ModelSpec spec = *ModelSpec::Create(TestModelConfig(1, 12, 3, 7, 31));
  std::vector<DecaySegment> segments = DecaySegments(spec, 0, spec.units()[0].flat_end);
  ASSERT_EQ(segments.size(), 2u);  // wte, then wpe
  EXPECT_TRUE(segments[0].decay);
  EXPECT_EQ(segments[0].count, 31 * 12);
  EXPECT_FALSE(segments[1].decay);
}

}  // namespace
}  // namespace zerofleet
