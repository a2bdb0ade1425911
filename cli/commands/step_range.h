// Steps as users name them: FIRST-LAST.
#ifndef ZEROFLEET_CLI_COMMANDS_STEP_RANGE_H_
#define ZEROFLEET_CLI_COMMANDS_STEP_RANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::cli {

// The steps from `first` to `last`, both included.
struct StepRange {
  int64_t first = 0, last = 0;
};

// Parses "10-12", or "10" for a single step. InvalidArgument, naming `flag`, for other text and for more than `most`
// steps.
absl::StatusOr<StepRange> ParseStepRange(const std::string& flag, const std::string& text, int64_t most);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_STEP_RANGE_H_
