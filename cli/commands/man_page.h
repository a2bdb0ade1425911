// The manual page, zerofleet(1), written from the help.
#ifndef ZEROFLEET_CLI_COMMANDS_MAN_PAGE_H_
#define ZEROFLEET_CLI_COMMANDS_MAN_PAGE_H_

#include <string>

#include "cli/commands/command_tree.h"

namespace zerofleet::cli {

// The page in roff, with the macros of man(7). `version` is shown at the foot of the page.
std::string ManPage(const CommandInfo& root, const std::string& version);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_MAN_PAGE_H_
