// Where a text is cut.
#include "base/cut_text.h"

#include <string>

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(CutText, KeepsWholeCharacters) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";  // of 1, 2, 3, 4 and 1 bytes
  const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (size_t most = 0; most < std::size(expected); ++most) {
    EXPECT_EQ(CutText(text, most), text.substr(0, expected[most])) << most;
  }
}

TEST(CutText, CutsWhatIsNoTextAnywhere) {
  EXPECT_EQ(CutText(std::string(100, '\x80'), 50).size(), 50u);
  EXPECT_EQ(CutText("", 5), "");
  EXPECT_EQ(CutText("", 0), "");
}

}  // namespace
}  // namespace zerofleet
