// A command's --help, wrapped to the terminal's width.
#ifndef ZEROFLEET_CLI_COMMANDS_HELP_TEXT_H_
#define ZEROFLEET_CLI_COMMANDS_HELP_TEXT_H_

#include <string>

#include "cli/commands/command_tree.h"
#include "cli/report/terminal.h"

namespace zerofleet::cli {

std::string HelpText(const CommandInfo& command, const Terminal& terminal);

// Breaks a command line into lines of at most `columns`, each but the last ending in a backslash, so that it can still
// be pasted into a shell. Text in double quotes is not split.
std::string WrapCommandLine(const std::string& line, int columns, int indent);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_HELP_TEXT_H_
