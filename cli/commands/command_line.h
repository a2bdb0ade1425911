// The whole command line, from argv to an exit code.
#ifndef ZEROFLEET_CLI_COMMANDS_COMMAND_LINE_H_
#define ZEROFLEET_CLI_COMMANDS_COMMAND_LINE_H_

#include "cli/commands/command.h"

namespace zerofleet::cli {

// Parses `argv` and runs the command. An invalid command line is one line on output.err, "zerofleet: ...", and 2.
int RunCommandLine(int argc, const char* const* argv, const Output& output);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_COMMAND_LINE_H_
