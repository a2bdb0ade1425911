// Sizes as users write them.
#include "cli/commands/plan_size.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(PlanSize, ReadsCountsWithSuffixes) {
  EXPECT_EQ(ParseParameterCount("124439808").value(), 124439808);
  EXPECT_EQ(ParseParameterCount("7.5B").value(), 7.5e9);
  EXPECT_EQ(ParseParameterCount("1t").value(), 1e12);
  for (const char* bad : {"", "B", "7.5X", "7.5BB", "-1", "0", "nan", "inf", "1e16", "1 B"}) {
    EXPECT_EQ(ParseParameterCount(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(PlanSize, CountsAPresetsParameters) {
  EXPECT_EQ(ChoosePlanSize("", "gpt2-124m", "").value().parameters, 124439808);
  EXPECT_EQ(ChoosePlanSize("", "gpt2-125m", "").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlanSize, PrecisionIsTheFlagsOrTheModels) {
  EXPECT_EQ(ChoosePlanSize("", "", "1B").value().precision, "bf16");
  EXPECT_EQ(ChoosePlanSize("", "", "1B", {}, "fp32").value().precision, "fp32");
  const PlanSize preset = ChoosePlanSize("", "gpt2-124m", "", {}, "fp16").value();
  EXPECT_EQ(preset.precision, "fp16");
  EXPECT_EQ(preset.config->precision(), "fp16");
  EXPECT_EQ(ChoosePlanSize("", "", "1B", {}, "fp8").status().message(),
            "--precision: must be bf16, fp16 or fp32, got \"fp8\"");
}

TEST(PlanSize, NeedsExactlyOneSource) {
  EXPECT_FALSE(ChoosePlanSize("", "", "").ok());
  EXPECT_FALSE(ChoosePlanSize("", "gpt2-124m", "1B").ok());
}

}  // namespace
}  // namespace zerofleet::cli
