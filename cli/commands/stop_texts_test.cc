// Stop texts that arrive whole, in parts, and incompletely.
#include "cli/commands/stop_texts.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(StopTextsTest, WhatMayBeginAStopIsHeldBack) {
  StopTexts stops({"\n\n", "User:"});
  EXPECT_EQ(stops.Add("one\n"), "one");
  EXPECT_EQ(stops.Add("two U"), "\ntwo ");
  EXPECT_EQ(stops.Add("se"), "");
  EXPECT_EQ(stops.Add("ful"), "Useful");
  EXPECT_FALSE(stops.stopped());
  EXPECT_EQ(stops.Add(" end\nUser: more"), " end\n");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.Add("later"), "");
  EXPECT_EQ(stops.Finish(), "");
}

TEST(StopTextsTest, WhatWasHeldBackIsShownAtTheEnd) {
  StopTexts stops({"END"});
  EXPECT_EQ(stops.Add("the EN"), "the ");
  EXPECT_EQ(stops.Finish(), "EN");
}

TEST(StopTextsTest, TheFirstStopCounts) {
  StopTexts stops({"b", "ab"});
  EXPECT_EQ(stops.Add("xxab"), "xx");
}

}  // namespace
}  // namespace zerofleet::cli
