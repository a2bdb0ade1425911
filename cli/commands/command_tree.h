// The commands and their options as plain values, read from the parser; help, completion and the manual page
// are generated from them.
#ifndef ZEROFLEET_CLI_COMMANDS_COMMAND_TREE_H_
#define ZEROFLEET_CLI_COMMANDS_COMMAND_TREE_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace zerofleet::cli {

struct OptionInfo {
  std::vector<std::string> names;  // "-h", "--help"; for a positional argument its only name, "CONFIG"
  // What the option takes: "N", "HOST:PORT", "auto|cpu|cuda"; empty for a flag. FILE, and names that end in DIR or
  // PATH, mean paths, KEY=... a configuration key: completion uses them.
  std::string value;
  std::string description;
  std::string range, default_value, environment;  // each empty if there is none
  bool positional = false, required = false, repeatable = false;

  // "--device auto|cpu|cuda"
  std::string Usage() const;
  // The description, with the range, the default and the environment variable.
  std::string FullDescription() const;
};

struct CommandInfo {
  std::string path;  // "zerofleet bench step"
  std::string name, description;
  std::string footer;  // "Example:" and indented command lines, then paragraphs
  std::vector<OptionInfo> options;
  std::vector<CommandInfo> commands;

  // "zerofleet train [OPTIONS] CONFIG"
  std::string Usage() const;
};

CommandInfo DescribeCommand(const CLI::App& app);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_COMMAND_TREE_H_
