// Prompts of a file: one a line, or JSON lines.
#ifndef ZEROFLEET_CLI_COMMANDS_PROMPTS_H_
#define ZEROFLEET_CLI_COMMANDS_PROMPTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace zerofleet::cli {

struct Prompt {
  std::string text;
  nlohmann::ordered_json messages;  // a chat's, instead of `text`; null without
};

// Lines that are not blank, each a prompt; or, if the first of them begins with "{", objects with `prompt`, a text, or
// `messages`, a list as chat templates take it. Errors name the file, and the line: NotFound, DataLoss also if there is
// no prompt.
absl::StatusOr<std::vector<Prompt>> ReadPrompts(const std::string& path);

// The same of a file's contents; errors begin with the line.
absl::StatusOr<std::vector<Prompt>> ParsePrompts(std::string_view contents);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_PROMPTS_H_
