// TensorBoard's buckets, and spreads of parts that add up to that of the whole.
#include "worker/zero/spread.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::zero {
namespace {

TEST(Spread, HasTensorBoardsBuckets) {
  const std::span<const double> limits = Spread::Limits();
  ASSERT_EQ(limits.size(), static_cast<size_t>(Spread::kBuckets));
  EXPECT_EQ(limits[775], 0);
  EXPECT_EQ(limits[776], 1e-12);
  EXPECT_EQ(limits[777], 1e-12 * 1.1);
  EXPECT_EQ(limits.back(), std::numeric_limits<double>::max());
  EXPECT_LT(limits[limits.size() - 2], 1e20);
  EXPECT_GT(limits[limits.size() - 2] * 1.1, 1e20);
  for (size_t i = 0; i < limits.size(); ++i) {
    EXPECT_EQ(limits[i], -limits[limits.size() - 1 - i]);
    EXPECT_LT(i > 0 ? limits[i - 1] : -INFINITY, limits[i]);
  }
}

// As tensorflow's Histogram::EncodeToProto.
TEST(Spread, CollapsesEmptyRuns) {
  Spread spread;
  for (const double value : {1.0, 1.0, 1e-13, 3.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    spread.Add(value);
  }
  const std::vector<Spread::Bucket> buckets = spread.Buckets();
  ASSERT_EQ(buckets.size(), 6u);
  EXPECT_EQ(buckets[0].limit, 0);
  EXPECT_EQ(buckets[0].count, 0);
  EXPECT_EQ(buckets[1].limit, 1e-12);
  EXPECT_EQ(buckets[1].count, 1);
  EXPECT_EQ(buckets[2].count, 0);
  EXPECT_LE(buckets[2].limit, 1);
  EXPECT_EQ(buckets[3].count, 2);
  EXPECT_GT(buckets[3].limit, 1);
  EXPECT_EQ(buckets[5].count, 1);
  EXPECT_EQ(spread.count, 4);
  EXPECT_EQ(spread.least, 1e-13);
  EXPECT_EQ(spread.most, 3);
  EXPECT_EQ(spread.sum.Value(), 5 + 1e-13);
  EXPECT_TRUE(Spread().Buckets().empty());
}

// The limit of a bucket belongs to the next bucket.
TEST(Spread, CountsZerosAsNotNegative) {
  Spread spread;
  spread.Add(0);
  EXPECT_EQ(spread.Buckets().back().limit, 1e-12);
  EXPECT_EQ(spread.Buckets().front().limit, 0);
}

TEST(Spread, OfPartsAddsUp) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1e-3f);
  std::vector<double> values(10'000);
  for (double& value : values) value = normal(random);
  Spread whole;
  for (const double value : values) whole.Add(value);
  for (const int parts : {2, 3, 7}) {
    std::vector<Spread> some(static_cast<size_t>(parts));
    for (size_t i = 0; i < values.size(); ++i) some[i % some.size()].Add(values[i]);
    Spread sum;
    for (auto part = some.rbegin(); part != some.rend(); ++part) sum.Add(*part);
    EXPECT_EQ(sum.counts, whole.counts);
    EXPECT_EQ(sum.count, whole.count);
    EXPECT_EQ(sum.least, whole.least);
    EXPECT_EQ(sum.most, whole.most);
    EXPECT_EQ(sum.sum.Value(), whole.sum.Value());
    EXPECT_EQ(sum.squares.Value(), whole.squares.Value());
  }
  EXPECT_EQ(std::accumulate(whole.counts.begin(), whole.counts.end(), int64_t{0}), whole.count);
}

}  // namespace
}  // namespace zerofleet::zero
