// Ranges of steps, and texts that are none.
#include "cli/commands/step_range.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(StepRangeTest, IsFromFirstToLast) {
  EXPECT_EQ(ParseStepRange("--steps", "10-12", 3)->first, 10);
  EXPECT_EQ(ParseStepRange("--steps", "10-12", 3)->last, 12);
  EXPECT_EQ(ParseStepRange("--steps", "7", 3)->first, 7);
  EXPECT_EQ(ParseStepRange("--steps", "7", 3)->last, 7);
  for (const char* wrong : {"", "0-3", "3-2", "a-b", "1-", "-1", "1-2-3", "9223372036854775808"}) {
    EXPECT_THAT(std::string(ParseStepRange("--steps", wrong, 3).status().message()),
                testing::StartsWith("--steps: must be FIRST-LAST, such as 10-12, the first step being 1, got \""))
        << wrong;
  }
  EXPECT_EQ(ParseStepRange("--steps", "10-13", 3).status().message(), "--steps: must be at most 3 steps, got 4");
}

}  // namespace
}  // namespace zerofleet::cli
