// See step_range.h.
#include "cli/commands/step_range.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace zerofleet::cli {

absl::StatusOr<StepRange> ParseStepRange(const std::string& flag, const std::string& text, int64_t most) {
  constexpr size_t kLongestQuotedRange = 60;
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('-', 1));
  StepRange steps;
  const bool numbers = absl::SimpleAtoi(parts.front(), &steps.first) && absl::SimpleAtoi(parts.back(), &steps.last);
  if (!numbers || steps.first < 1 || steps.last < steps.first) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": must be FIRST-LAST, such as 10-12, the first step being 1, got \"",
                     absl::CHexEscape(text.substr(0, kLongestQuotedRange)), "\""));
  }
  if (steps.last - steps.first >= most) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": must be at most ", most, " steps, got ", steps.last - steps.first + 1));
  }
  return steps;
}

}  // namespace zerofleet::cli
