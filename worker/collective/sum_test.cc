// Sums in fp32, in rank order, rounded once.
#include "worker/collective/sum.h"

#include <gtest/gtest.h>

#include <vector>

namespace zerofleet {
namespace {

TEST(SumTest, AddsFromLeftToRight) {
  const std::vector<float> a(3000, 1e8f), b(3000, 1.0f), c(3000, -1e8f);
  std::vector<float> sum(3000, 7.0f);
  const std::vector<const void*> forward = {a.data(), b.data(), c.data()}, late = {a.data(), c.data(), b.data()};
  SumInOrder(forward, DType::kF32, sum.data(), DType::kF32, 2999);
  for (int i = 0; i < 2999; i++) ASSERT_EQ(sum[i], 0.0f) << i;  // the 1 is lost next to 1e8
  EXPECT_EQ(sum[2999], 7.0f);
  SumInOrder(late, DType::kF32, sum.data(), DType::kF32, 3000);
  for (int i = 0; i < 3000; i++) ASSERT_EQ(sum[i], 1.0f) << i;
}

// 1 + 2^-8 + 2^-8 is 1 + 2^-7 when rounded once, and 1 when rounded after every addition.
TEST(SumTest, RoundsOnce) {
  const std::vector<BF16> one(5, ToBF16(1.0f)), small(5, ToBF16(1.0f / 256));
  std::vector<BF16> sum(5);
  const std::vector<const void*> contributions = {one.data(), small.data(), small.data()};
  SumInOrder(contributions, DType::kBF16, sum.data(), DType::kBF16, 5);
  for (BF16 value : sum) EXPECT_EQ(ToFloat(value), 1.0f + 1.0f / 128);
}

TEST(SumTest, MayWriteIntoAContribution) {
  std::vector<float> a(5000), b(5000, 1.0f);
  for (int i = 0; i < 5000; i++) a[i] = static_cast<float>(i);
  const std::vector<const void*> contributions = {b.data(), a.data()};
  SumInOrder(contributions, DType::kF32, a.data(), DType::kBF16, 5000);
  for (int i = 0; i < 5000; i++) {
    ASSERT_EQ(reinterpret_cast<const BF16*>(a.data())[i].bits, ToBF16(static_cast<float>(i) + 1).bits) << i;
  }
}

}  // namespace
}  // namespace zerofleet
