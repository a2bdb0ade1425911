// Sums in fp32, in rank order, rounded once.
#include "worker/collective/sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace zerofleet::collective {
namespace {

TEST(SumTest, AddsFromLeftToRight) {
  const std::vector<float> a(3000, 1e8f), b(3000, 1.0f), c(3000, -1e8f);
  std::vector<float> sum(3000, 7.0f);
  const std::vector<const void*> forward = {a.data(), b.data(), c.data()}, late = {a.data(), c.data(), b.data()};
  SumInOrder(forward, device::DType::kF32, {sum.data(), device::DType::kF32}, 2999);
  for (int i = 0; i < 2999; i++) ASSERT_EQ(sum[i], 0.0f) << i;  // the 1 is lost next to 1e8
  EXPECT_EQ(sum[2999], 7.0f);
  SumInOrder(late, device::DType::kF32, {sum.data(), device::DType::kF32}, 3000);
  for (int i = 0; i < 3000; i++) ASSERT_EQ(sum[i], 1.0f) << i;
}

// 1 + 2^-8 + 2^-8 is 1 + 2^-7 when rounded once, and 1 when rounded after every addition.
TEST(SumTest, RoundsOnce) {
  const std::vector<device::BF16> one(5, device::ToBF16(1.0f)), small(5, device::ToBF16(1.0f / 256));
  std::vector<device::BF16> sum(5);
  const std::vector<const void*> contributions = {one.data(), small.data(), small.data()};
  SumInOrder(contributions, device::DType::kBF16, {sum.data(), device::DType::kBF16}, 5);
  for (device::BF16 value : sum) EXPECT_EQ(device::ToFloat(value), 1.0f + 1.0f / 128);
}

// Whole vectors and the remainder after them convert as dtype.h does, for every fp16 value and every kind of rounding
// to one.
TEST(SumTest, ConvertsEveryFp16AsDtypeDoes) {
  std::vector<device::F16> halves;
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    const bool is_nan = (bits & 0x7c00u) == 0x7c00u && (bits & 0x3ffu) != 0;
    if (!is_nan) halves.push_back(device::F16{static_cast<uint16_t>(bits)});
  }
  halves.resize(halves.size() - 3);
  const int64_t count = static_cast<int64_t>(halves.size());
  const std::vector<float> small(count, 0x1.8p-14f);
  std::vector<float> wide(count);
  const std::vector<const void*> one = {halves.data()};
  SumInOrder(one, device::DType::kF16, {wide.data(), device::DType::kF32}, count);
  for (int64_t i = 0; i < count; i++) ASSERT_EQ(wide[i], device::ToFloat(halves[i])) << halves[i].bits;
  const std::vector<const void*> more = {wide.data(), small.data()};
  std::vector<device::F16> rounded(count);
  SumInOrder(more, device::DType::kF32, {rounded.data(), device::DType::kF16}, count);
  for (int64_t i = 0; i < count; i++)
    ASSERT_EQ(rounded[i].bits, device::ToF16(wide[i] + small[i]).bits) << halves[i].bits;
}

TEST(SumTest, KeepsANaNInEveryType) {
  const std::vector<float> values(11, std::numeric_limits<float>::quiet_NaN());
  const std::vector<const void*> one = {values.data()};
  std::vector<device::F16> half(11);
  std::vector<float> back(11);
  SumInOrder(one, device::DType::kF32, {half.data(), device::DType::kF16}, 11);
  const std::vector<const void*> halves = {half.data(), half.data()};
  SumInOrder(halves, device::DType::kF16, {back.data(), device::DType::kF32}, 11);
  for (float value : back) EXPECT_TRUE(std::isnan(value));
}

TEST(SumTest, MayWriteIntoAContribution) {
  std::vector<float> a(5000), b(5000, 1.0f);
  for (int i = 0; i < 5000; i++) a[i] = static_cast<float>(i);
  const std::vector<const void*> contributions = {b.data(), a.data()};
  SumInOrder(contributions, device::DType::kF32, {a.data(), device::DType::kBF16}, 5000);
  for (int i = 0; i < 5000; i++) {
    ASSERT_EQ(reinterpret_cast<const device::BF16*>(a.data())[i].bits, device::ToBF16(static_cast<float>(i) + 1).bits)
        << i;
  }
}

}  // namespace
}  // namespace zerofleet::collective
