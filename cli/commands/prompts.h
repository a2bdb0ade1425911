// Reads prompts from a file: one per line as text, or JSON lines.
#ifndef ZEROFLEET_CLI_COMMANDS_PROMPTS_H_
#define ZEROFLEET_CLI_COMMANDS_PROMPTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace zerofleet::cli {

struct Prompt {
  std::string text;
  nlohmann::ordered_json messages;  // the messages of a chat, instead of `text`; null if there are none
};

// Each line that is not blank is a prompt. If the first one begins with "{", each line is a JSON object with `prompt`,
// a text, or `messages`, a list as chat templates take it. NotFound if there is no file; DataLoss, naming the line, for
// a malformed one, and if there is no prompt.
absl::StatusOr<std::vector<Prompt>> ReadPrompts(const std::string& path);

// The prompts in a file's contents; errors begin with the line.
absl::StatusOr<std::vector<Prompt>> ParsePrompts(std::string_view contents);

// Puts a system message before the messages of every prompt that has any. InvalidArgument if one has a system message
// of its own.
absl::Status TellFirst(const std::string& system, std::vector<Prompt>& prompts);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_PROMPTS_H_
