// Width and colour by descriptor and environment, on a real pseudo-terminal; wrapping of text.
#include "cli/report/terminal.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <map>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

Terminal::Environment Environment(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

// A separate terminal of the given height and width.
class Screen {
 public:
  Screen(int columns, int rows) {
    EXPECT_EQ(openpty(&ours_, &theirs_, nullptr, nullptr, nullptr), 0);
    Resize(columns, rows);
  }
  ~Screen() {
    close(ours_);
    close(theirs_);
  }
  void Resize(int columns, int rows) {
    const winsize size = {static_cast<unsigned short>(rows), static_cast<unsigned short>(columns), 0, 0};
    ioctl(theirs_, TIOCSWINSZ, &size);
  }
  int descriptor() const { return theirs_; }

 private:
  int ours_ = -1, theirs_ = -1;
};

TEST(Terminal, IsAsWideAsItsScreenAtTheMoment) {
  Screen screen(60, 24);
  const Terminal terminal = Terminal::Of(screen.descriptor(), Environment({{"TERM", "xterm"}, {"COLUMNS", "33"}}));
  EXPECT_TRUE(terminal.live());
  EXPECT_EQ(terminal.columns(), 60);
  EXPECT_EQ(terminal.rows(), 24);
  screen.Resize(200, 50);
  EXPECT_EQ(terminal.columns(), 200);
  EXPECT_EQ(terminal.text_columns(), 120);
  screen.Resize(5, 5);
  EXPECT_EQ(terminal.columns(), 20);
}

TEST(Terminal, FallsBackToColumnsAndThenToEighty) {
  Screen screen(0, 0);
  EXPECT_EQ(Terminal::Of(screen.descriptor(), Environment({{"TERM", "xterm"}, {"COLUMNS", "72"}})).columns(), 72);
  EXPECT_EQ(Terminal::Of(screen.descriptor(), Environment({{"TERM", "xterm"}})).columns(), 80);
  EXPECT_EQ(Terminal::Of(screen.descriptor(), Environment({{"TERM", "xterm"}, {"COLUMNS", "wide"}})).columns(), 80);
}

TEST(Terminal, AFileHasAnyWidthAndNoColor) {
  const int file = open("/dev/null", O_WRONLY);
  const Terminal plain = Terminal::Of(file, Environment({{"TERM", "xterm"}}));
  EXPECT_FALSE(plain.live());
  EXPECT_EQ(plain.columns(), 0);
  EXPECT_EQ(plain.text_columns(), 80);
  EXPECT_EQ(plain.Paint(Style::kError, "x"), "x");
  EXPECT_EQ(Terminal::Of(file, Environment({{"COLUMNS", "60"}})).columns(), 60);
  EXPECT_EQ(Terminal::Of(-1, Environment({})).columns(), 0) << "a closed descriptor";
  close(file);
}

TEST(Terminal, ColorIsWhereItIsWelcome) {
  Screen screen(80, 24);
  const auto painted = [&](const std::map<std::string, std::string>& variables) {
    return Terminal::Of(screen.descriptor(), Environment(variables)).Paint(Style::kError, "x");
  };
  EXPECT_EQ(painted({{"TERM", "xterm"}}), "\x1b[1;31mx\x1b[0m");
  EXPECT_EQ(painted({{"TERM", "xterm"}, {"NO_COLOR", ""}}), "\x1b[1;31mx\x1b[0m") << "empty: as if it were not set";
  EXPECT_EQ(painted({{"TERM", "xterm"}, {"NO_COLOR", "1"}}), "x");
  EXPECT_EQ(painted({{"TERM", "dumb"}}), "x");
  EXPECT_EQ(painted({}), "x");
  EXPECT_FALSE(Terminal::Of(screen.descriptor(), Environment({{"TERM", "dumb"}})).live());
  EXPECT_TRUE(Terminal::Of(screen.descriptor(), Environment({{"TERM", "xterm"}, {"NO_COLOR", "1"}})).live());
}

TEST(WrapText, BreaksAtSpacesAndKeepsLongWordsWhole) {
  EXPECT_EQ(WrapText("one two three", 0), "one two three");
  EXPECT_EQ(WrapText("one two three", 13), "one two three");
  EXPECT_EQ(WrapText("one two three", 12), "one two\nthree");
  EXPECT_EQ(WrapText("one two three", 12, 2, 5), "one two\n  three");
  EXPECT_EQ(WrapText("one two three", 12, 2, 6), "one\n  two three");
  EXPECT_EQ(WrapText("in /a/path/that/is/long here", 10), "in\n/a/path/that/is/long\nhere");
  EXPECT_EQ(WrapText("a\nb c", 3), "a\nb c");
  EXPECT_EQ(WrapText("  two  spaces", 9), "  two\nspaces");
  EXPECT_EQ(WrapText("µµ µµ", 5), "µµ µµ") << "columns, not bytes";
  EXPECT_EQ(WrapText("", 5), "");
}

}  // namespace
}  // namespace zerofleet::cli
