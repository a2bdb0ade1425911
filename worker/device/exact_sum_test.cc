// Sums of doubles against integers, in any order and in any parts.
#include "worker/device/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::device {
namespace {

using Integer = __int128;

double ExactSumOf(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.Add(value);
  return sum.Value();
}

// The double nearest to units * 2^`exponent`, by the compiler's own conversion.
double Rounded(Integer units, int exponent) {
  const bool negative = units < 0;
  auto left = static_cast<unsigned __int128>(negative ? -units : units);
  int shift = 0;
  bool lost = false;
  for (; left >> 62 != 0; left >>= 1, ++shift) lost = lost || (left & 1) != 0;
  // The lowest bit stands for all bits that were cut off; the conversion rounds to nearest, ties to even.
  const double value =
      std::ldexp(static_cast<double>(static_cast<int64_t>(left) | static_cast<int64_t>(lost)), shift + exponent);
  return negative ? -value : value;
}

TEST(ExactSum, AgreesWithIntegersInAnyOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    constexpr int kSpread = 60, kCount = 300;  // 113 bits, and the carry of 300 such numbers
    const int lowest = static_cast<int>(random() % 400) - 300;
    std::vector<double> values;
    Integer units = 0;
    for (int i = 0; i < kCount; ++i) {
      const auto mantissa = static_cast<int64_t>(random() >> 11) * (random() % 2 == 0 ? 1 : -1);
      const int above = static_cast<int>(random() % kSpread);
      values.push_back(std::ldexp(static_cast<double>(mantissa), lowest + above));
      units += static_cast<Integer>(mantissa) << above;
    }
    const double want = Rounded(units, lowest);
    EXPECT_EQ(ExactSumOf(values), want) << "round " << round;
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(ExactSumOf(values), want) << "round " << round << ", shuffled";
  }
}

TEST(ExactSum, PartsAddUpToTheWhole) {
  std::mt19937_64 random(2);
  std::vector<double> values(1000);
  for (double& value : values) {
    value = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 500) - 250);
  }
  const double want = ExactSumOf(values);
  for (const size_t parts : {2, 3, 7, 64}) {
    ExactSum whole;
    for (size_t part = 0; part < parts; ++part) {
      ExactSum sum;
      for (size_t i = part; i < values.size(); i += parts) sum.Add(values[i]);
      sum.Normalize();
      whole.Add(sum);
    }
    EXPECT_EQ(whole.Value(), want) << parts << " parts";
  }
}

TEST(ExactSum, RoundsTiesToEven) {
  const double one = 1.0, half = std::ldexp(1.0, -53), tiny = std::ldexp(1.0, -319);
  EXPECT_EQ(ExactSumOf({one, half}), 1.0);
  EXPECT_EQ(ExactSumOf({one, half, tiny}), std::nextafter(1.0, 2.0)) << "more than half";
  EXPECT_EQ(ExactSumOf({std::nextafter(1.0, 2.0), half}), 1.0 + std::ldexp(1.0, -51));
  EXPECT_EQ(ExactSumOf({1e80, 3.0, -1e80}), 3.0);
}

TEST(ExactSum, TheWholeRangeOfSquares) {
  const double smallest = std::numeric_limits<float>::denorm_min(), largest = std::numeric_limits<float>::max();
  EXPECT_EQ(ExactSumOf({smallest * smallest}), smallest * smallest);
  EXPECT_EQ(ExactSumOf({32 * largest * largest, smallest * smallest, -32 * largest * largest}), smallest * smallest);
  EXPECT_EQ(ExactSumOf({0.0, -0.0}), 0.0);
  EXPECT_EQ(ExactSumOf({-1.5, 0.25}), -1.25);
  EXPECT_EQ(ExactSumOf({std::ldexp(1.5, -400)}), 0.0) << "below the lowest limb";
}

TEST(ExactSum, WhatIsNotFiniteStays) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ExactSumOf({1, infinity, 2}), infinity);
  EXPECT_EQ(ExactSumOf({1, -infinity, 2}), -infinity);
  EXPECT_TRUE(std::isnan(ExactSumOf({infinity, -infinity})));
  EXPECT_TRUE(std::isnan(ExactSumOf({1, std::nan(""), infinity})));
  EXPECT_EQ(ExactSumOf({std::ldexp(1.0, 308)}), infinity);
  EXPECT_EQ(ExactSumOf({std::nextafter(std::ldexp(1.0, 308), 0.0)}), std::nextafter(std::ldexp(1.0, 308), 0.0));
  ExactSum overflow;
  for (int i = 0; i < 10'000; ++i) overflow.Add(std::ldexp(1.0, 307));
  EXPECT_EQ(overflow.Value(), infinity);
}

TEST(BlockOfSquares, CountsEachElementOnce) {
  std::vector<float> x(32);
  std::iota(x.begin(), x.end(), 1.0f);
  for (int64_t count = 0; count <= 32; ++count) {
    EXPECT_EQ(BlockOfSquares(x.data(), count), static_cast<double>(count * (count + 1) * (2 * count + 1) / 6));
  }
}

}  // namespace
}  // namespace zerofleet::device
