// Segments cover a piece exactly; clipping follows PyTorch's rule.
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

TEST(ClipCoefficient, OnlyShrinks) {
  EXPECT_EQ(ClipCoefficient(0.5, 1.0), 1.0);
  EXPECT_NEAR(ClipCoefficient(4.0, 1.0), 0.25, 1e-6);
  EXPECT_EQ(ClipCoefficient(4.0, 0.0), 1.0);
}

}  // namespace
}  // namespace zerofleet
