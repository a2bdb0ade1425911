// Every command's help at every width: it has an example, no line is too wide, and nothing is missing.
#include "cli/commands/help_text.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands/command_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

std::string HelpOf(const std::string& path, const Terminal& terminal) {
  std::vector<std::string> words = absl::StrSplit(path, ' ');
  words.push_back("--help");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  EXPECT_EQ(RunCommandLine(static_cast<int>(argv.size()), argv.data(), {out, err, terminal, terminal}), 0) << path;
  EXPECT_EQ(err.str(), "");
  return out.str();
}

// The paths below "zerofleet", read from the help's own list of commands.
std::vector<std::string> AllCommands(const std::string& path = "zerofleet") {
  std::vector<std::string> all = {path};
  const std::string help = HelpOf(path, {});
  const size_t list = help.find("\nCommands:\n");
  if (list == std::string::npos) return all;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(help.substr(list + 11, help.find("\n\n", list) - list - 11), '\n'))) {
    if (line.size() < 3 || line[2] == ' ') continue;
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    for (const std::string& below : AllCommands(absl::StrCat(path, " ", name))) all.push_back(below);
  }
  return all;
}

TEST(HelpText, NoLineIsWiderThanTheTerminal) {
  const std::vector<std::string> commands = AllCommands();
  EXPECT_GE(commands.size(), 22u);
  for (const std::string& command : commands) {
    for (const int columns : {60, 80, 200}) {
      const std::string help = HelpOf(command, Terminal::OfSize(columns, 24, true, false));
      for (const std::string& line : std::vector<std::string>(absl::StrSplit(help, '\n')))
        EXPECT_LE(DisplayWidth(line), columns) << command << ": " << line;
    }
    const std::string piped = HelpOf(command, {});
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(piped, '\n')))
      EXPECT_LE(DisplayWidth(line), 80) << command << ": " << line;
    EXPECT_THAT(piped, HasSubstr("\nExample:\n  " + command)) << command;
  }
}

TEST(HelpText, ShowsUsageArgumentsOptionsAndDefaults) {
  CommandInfo command;
  command.path = command.name = "tool";
  command.description = "Does a thing.";
  command.footer = "Example:\n  tool FILE";
  command.options = {{.names = {"-h", "--help"},
                      .value = "",
                      .description = "Print this help and exit",
                      .range = "",
                      .default_value = "",
                      .environment = ""},
                     {.names = {"FILE"},
                      .value = "FILE",
                      .description = "What to read",
                      .range = "",
                      .default_value = "",
                      .environment = "",
                      .positional = true,
                      .required = true},
                     {.names = {"--count"},
                      .value = "N",
                      .description = "How many of the things there are in all",
                      .range = "1 to 9",
                      .default_value = "3",
                      .environment = "COUNT"}};
  EXPECT_EQ(HelpText(command, Terminal::OfSize(50, 24, true, false)),
            "Usage: tool [OPTIONS] FILE\n"
            "\n"
            "Does a thing.\n"
            "\n"
            "Arguments:\n"
            "  FILE  What to read (required)\n"
            "\n"
            "Options:\n"
            "  -h, --help  Print this help and exit\n"
            "  --count N   How many of the things there are in\n"
            "              all (1 to 9; default: 3; or $COUNT)\n"
            "\n"
            "Example:\n"
            "  tool FILE\n");
}

TEST(HelpText, TheLineForAnEditorIsWhole) {
  EXPECT_THAT(HelpOf("zerofleet config-schema", Terminal::OfSize(60, 24, false, false)),
              HasSubstr("\n  # yaml-language-server: $schema=zerofleet.schema.json\n"));
}

TEST(HelpText, ALongCommandLineCanStillBePasted) {
  EXPECT_EQ(WrapCommandLine("tool --a 1 --b \"two words\" --c 3", 22, 2),
            "  tool --a 1 --b \\\n    \"two words\" --c 3");
  EXPECT_EQ(WrapCommandLine("tool --a", 60, 2), "  tool --a");
}

}  // namespace
}  // namespace zerofleet::cli
