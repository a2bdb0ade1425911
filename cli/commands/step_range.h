// Steps as users name them: FIRST-LAST.
#ifndef ZEROFLEET_CLI_COMMANDS_STEP_RANGE_H_
#define ZEROFLEET_CLI_COMMANDS_STEP_RANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::cli {

// Both included.
struct StepRange {
  int64_t first = 0, last = 0;
};

// "10-12", or "10" for that one alone. InvalidArgument, naming `flag`, otherwise or for more than `most` steps.
absl::StatusOr<StepRange> ParseStepRange(const std::string& flag, const std::string& text, int64_t most);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_STEP_RANGE_H_
