// Trace ids and the metadata that carries them.
#include "services/common/trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

constexpr char kId[] = "4bf92f3577b34da6a3ce929d0e0e4736", kSpan[] = "00f067aa0ba902b7";  // the standard's own example

std::string With(const std::string& version, const std::string& id, const std::string& span, const std::string& rest) {
  return version + "-" + id + "-" + span + "-" + rest;
}

TEST(TraceTest, IdsAreNewEachTime) {
  const std::string id = NewTraceId();
  EXPECT_TRUE(IsTraceId(id)) << id;
  EXPECT_NE(id, NewTraceId());
}

TEST(TraceTest, ATraceparentCarriesItsId) {
  const std::string made = TraceparentOf(kId);
  EXPECT_THAT(made, ::testing::MatchesRegex("00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]*-01"));
  EXPECT_EQ(made.size(), 55u);
  EXPECT_EQ(TraceIdIn(made), kId);
  EXPECT_NE(made, TraceparentOf(kId)) << "each call has an id of its own";
  EXPECT_EQ(TraceparentOf(""), "");
}

TEST(TraceTest, ReadsTheStandardsExampleAndLaterVersions) {
  EXPECT_EQ(TraceIdIn(With("00", kId, kSpan, "00")), kId);
  EXPECT_EQ(TraceIdIn(With("cc", kId, kSpan, "01-what-the-future-will-be-like")), kId);
}

TEST(TraceTest, ReadsNothingElse) {
  const std::string upper = "4BF92F3577B34DA6A3CE929D0E0E4736";
  for (const std::string& text :
       {std::string(), std::string("00"), With("ff", kId, kSpan, "01"), With("00", upper, kSpan, "01"),
        With("00", std::string(32, '0'), kSpan, "01"), With("00", kId, std::string(16, '0'), "01"),
        With("00", kId, kSpan, "01-more"), With("cc", kId, kSpan, "01.more"), With("00", kId, kSpan, "0g"),
        With("0x", kId, kSpan, "01"), With("00", std::string(kId).substr(1), kSpan, "01"),
        With("00", kId, std::string(kSpan).substr(1), "011"), "00_" + With("00", kId, kSpan, "01").substr(3)}) {
    EXPECT_EQ(TraceIdIn(text), "") << text;
  }
}

}  // namespace
}  // namespace zerofleet::services
