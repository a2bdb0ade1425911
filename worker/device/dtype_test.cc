// Half-precision conversions: every binary16 value, and rounding at every boundary between them.
#include "worker/device/dtype.h"

#include <cmath>

#include "gtest/gtest.h"

namespace zerofleet::device {
namespace {

// The value of a binary16, from its definition.
double Meaning(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(DTypeTest, EveryF16IsReadAsItsMeaning) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    const bool special = (bits & 0x7c00) == 0x7c00;
    if (special && (bits & 0x3ff) != 0) {
      EXPECT_TRUE(std::isnan(ToFloat(half)));
      EXPECT_TRUE(std::isnan(ToFloat(ToF16(ToFloat(half)))));
      continue;
    }
    ASSERT_EQ(ToFloat(half), special ? std::copysign(HUGE_VAL, Meaning(bits)) : Meaning(bits)) << bits;
    ASSERT_EQ(ToF16(ToFloat(half)).bits, bits);
    ASSERT_EQ(std::signbit(ToFloat(half)), (bits & 0x8000) != 0);
  }
}

TEST(DTypeTest, ToF16RoundsToNearestTiesToEven) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = Meaning(bits), high = Meaning(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    const uint16_t even = (bits & 1) == 0 ? bits : bits + 1;
    ASSERT_EQ(ToF16(middle).bits, even) << bits;
    ASSERT_EQ(ToF16(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(ToF16(std::nextafter(middle, HUGE_VALF)).bits, bits + 1);
    ASSERT_EQ(ToF16(-middle).bits, even | 0x8000);
  }
}

TEST(DTypeTest, ToF16BeyondItsRange) {
  EXPECT_EQ(ToF16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(ToF16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(ToF16(-HUGE_VALF).bits, 0xfc00);
  EXPECT_EQ(ToF16(0x1p-25f).bits, 0);  // a tie with zero
  EXPECT_EQ(ToF16(std::nextafter(0x1p-25f, 1.0f)).bits, 1);
}

}  // namespace
}  // namespace zerofleet::device
