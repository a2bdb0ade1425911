// Lines of bars, character by character.
#include "cli/report/bars.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(Bars, AreInProportionAndFit) {
  const std::string text =
      RenderBars({{"half", "5 B", 5}, {"tiny", "1 B", 0.001}, {"none", "0 B", 0}, {"all", "10 B", 10}}, 10, 40);
  // A full bar has 26 columns, so half of it has 13.
  EXPECT_EQ(text,
            "  half  #############                5 B\n"
            "  tiny  #                            1 B\n"
            "  none                               0 B\n"
            "  all   ##########################  10 B\n");
}

TEST(Bars, SayWhatIsTooLong) {
  EXPECT_EQ(RenderBars({{"a", "2", 2}}, 1, 40), "  a  ###############################>  2\n");
}

}  // namespace
}  // namespace zerofleet::cli
