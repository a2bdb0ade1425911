// What progress looks like in a file and on a terminal.
#include "cli/report/text_progress.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TextProgressTest, AFileHasALineNowAndThen) {
  FakeClock clock;
  std::ostringstream out;
  const Terminal file;
  TextProgress progress(out, file, clock);
  progress.Show("dir/a.txt", 0.1);
  EXPECT_EQ(out.str(), "");
  clock.Advance(6);
  progress.Show("dir/a.txt", 0.254);
  clock.Advance(1);
  progress.Show("dir/a.txt", 0.3);
  EXPECT_EQ(out.str(), "tokenizing dir/a.txt: 25%\n");
}

TEST(TextProgressTest, ATerminalsLineGoesAway) {
  FakeClock clock;
  std::ostringstream out;
  const Terminal terminal = Terminal::OfSize(60, 20, /*live=*/true, /*color=*/false);
  {
    TextProgress progress(out, terminal, clock);
    clock.Advance(1);
    progress.Show("dir/a.txt", 0.5);
    EXPECT_THAT(out.str(), AllOf(HasSubstr("a.txt"), HasSubstr("50%"), Not(HasSubstr("\n"))));
  }
  EXPECT_THAT(out.str(), EndsWith("\r\x1b[K"));
}

}  // namespace
}  // namespace zerofleet::cli
