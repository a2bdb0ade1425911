// Figures as people read them.
#include "base/units.h"

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(int64_t{3} << 30), "3.0 GiB");
}

TEST(Units, BytesAreParsed) {
  EXPECT_EQ(ParseBytes("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(ParseBytes("1.5 KiB"), 1536);
  EXPECT_EQ(ParseBytes("2TiB"), int64_t{2} << 40);
  for (const char* const wrong :
       {"", "4", "4GB", "GiB", "-1MiB", "0KiB", "4GiBs", "1e3KiB", "9999999999TiB", "nanKiB"}) {
    EXPECT_EQ(ParseBytes(wrong), std::nullopt) << wrong;
  }
}

TEST(Units, Counts) {
  EXPECT_EQ(HumanCount(17), "17");
  EXPECT_EQ(HumanCount(124439808), "124.4M");
  EXPECT_EQ(CountText(1, "file"), "1 file");
  EXPECT_EQ(CountText(0, "file"), "0 files");
}

TEST(Units, Seconds) {
  EXPECT_EQ(HumanSeconds(3.21), "3.2s");
  EXPECT_EQ(HumanSeconds(75.2), "1m15s");
  EXPECT_EQ(HumanSeconds(7384), "2h03m");
}

TEST(Units, Rounding) {
  EXPECT_EQ(RoundUp(0, 16), 0);
  EXPECT_EQ(RoundUp(17, 16), 32);
  EXPECT_EQ(CeilDivide(7, 3), 3);
}

}  // namespace
}  // namespace zerofleet
