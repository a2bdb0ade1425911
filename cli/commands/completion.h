// Shell completion, written from the commands and the configuration's keys.
#ifndef ZEROFLEET_CLI_COMMANDS_COMPLETION_H_
#define ZEROFLEET_CLI_COMMANDS_COMPLETION_H_

#include <string>
#include <vector>

#include "cli/commands/command_tree.h"

namespace zerofleet::cli {

struct CompletionWords {
  std::vector<std::string> keys;     // of the configuration, for KEY=VALUE and KEY=V1,V2
  std::vector<std::string> presets;  // for PRESET
};

// A script for bash, to be sourced; needs no other package.
std::string BashCompletion(const CommandInfo& root, const CompletionWords& words);

// A function for zsh, to be put into $fpath as _zerofleet.
std::string ZshCompletion(const CommandInfo& root, const CompletionWords& words);

// A script for fish, to be put into its folder of completions as zerofleet.fish.
std::string FishCompletion(const CommandInfo& root, const CompletionWords& words);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_COMPLETION_H_
