// Whether a complete configuration can be trained, as far as the configuration alone can tell.
//
// Ranges and choices are tables; each rule that ties two keys together is a function. A new key gets a row.
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_CHECK_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/config/config_text.h"

namespace zerofleet::cli {

// InvalidArgument with the first fault, and what would be right. `draft` has its defaults filled in.
absl::Status CheckConfig(const ConfigDraft& draft);

// The tables, for the schema. Choices are those of every build, including "cuda" and "nccl".
struct IntegerLimits {
  std::string key;
  int64_t smallest, largest;
};
std::vector<IntegerLimits> ConfigIntegerLimits();
struct ConfigChoices {
  std::string key;
  std::vector<std::string> choices;
};
std::vector<ConfigChoices> ConfigChoiceKeys();

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_CHECK_H_
