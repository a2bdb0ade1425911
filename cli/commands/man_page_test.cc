// The manual page: it has every command and option, and no text that roff would take for a request.
#include "cli/commands/man_page.h"

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "cli/commands/command_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

TEST(ManPage, HoldsEveryCommandAndOption) {
  const char* argv[] = {"zerofleet", "help", "--man"};
  std::ostringstream out, err;
  ASSERT_EQ(RunCommandLine(3, argv, {out, err, {}, {}}), 0) << err.str();
  const std::string page = out.str();
  for (const char* text : {".TH ZEROFLEET 1", ".SS zerofleet train [OPTIONS] CONFIG", ".SS zerofleet checkpoint verify",
                           "\n.B \\-\\-report FILE\n", ".SS zerofleet bench step", ".SH EXIT STATUS", "\n.B 130, 143\n",
                           "NO_COLOR", "zerofleet completion"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  const std::vector<std::string> requests = {".TH", ".SH", ".SS", ".TP", ".B", ".PP", ".nf", ".fi", ".\\\""};
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(page, '\n'))) {
    if (line.empty() || (line[0] != '.' && line[0] != '\'')) continue;
    EXPECT_THAT(requests, ::testing::Contains(line.substr(0, line.find(' ')))) << line;
  }
}

TEST(ManPage, TextIsNoRequest) {
  CommandInfo root;
  root.path = root.name = "tool";
  root.description = ".TH starts with a dot and has a \\ and a-dash";
  EXPECT_THAT(ManPage(root, "1"), HasSubstr("\n\\&.TH starts with a dot and has a \\e and a\\-dash\n"));
}

}  // namespace
}  // namespace zerofleet::cli
