// Sizes as users write them.
#include "cli/planner/plan_size.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(PlanSize, MakesAWholeConfiguration) {
  const v1::Config preset =
      ChoosePlanConfig("", "zero-8b", "", {{"--set", "parallel.tensor=4"}, {"--set", "batch.micro_sequences=3"}}, "",
                       64)
          .value();
  EXPECT_EQ(preset.model().layers(), 72);
  EXPECT_EQ(preset.parallel().workers(), 64);
  EXPECT_EQ(preset.batch().micro_sequences(), 3);
  EXPECT_EQ(preset.batch().global_sequences(), 48);  // of 16 tensor groups
  const v1::Config count = ChoosePlanConfig("", "", "7.5B", {}, "fp16", 8).value();
  EXPECT_EQ(count.precision(), "fp16");
  EXPECT_EQ(count.batch().global_sequences(), 8);
  EXPECT_EQ(ChoosePlanConfig("", "", "7.5B", {{"--set", "batch.global_sequences=32"}}, "", 8)
                .value()
                .batch()
                .global_sequences(),
            32);
  for (const char* const bad : {"0", "nan", "-1", "5T", "1e15", "12", ""}) {
    EXPECT_EQ(ChoosePlanConfig("", "", bad, {}, "", 8).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  for (const char* const bad :
       {"parallel.tensor=3", "batch.micro_sequences=0", "batch.micro_sequences=99999999999999999999",
        "batch.global_sequences=-8", "model.layers=0", "nonsense"}) {
    EXPECT_EQ(ChoosePlanConfig("", "zero-8b", "", {{"--set", bad}}, "", 8).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(PlanSize, SaysWhereItCountsFrozenWeightsAsTrained) {
  PlanSize size = ChoosePlanSize("", "gpt2-124m", "").value();
  const char kSaid[] = "as if all parameters were trained, which they are not here";
  EXPECT_THAT(StatesConvention(size), Not(HasSubstr(kSaid)));
  size.config->mutable_model()->add_freeze("transformer.wte.*");
  EXPECT_THAT(StatesConvention(size), HasSubstr(kSaid));
  EXPECT_THAT(StatesConvention(ChoosePlanSize("", "", "7.5B").value()), Not(HasSubstr(kSaid)));
}

}  // namespace
}  // namespace zerofleet::cli
