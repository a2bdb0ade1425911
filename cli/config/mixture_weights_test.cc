// Decimals to the smallest integers.
#include "cli/config/mixture_weights.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using testing::ElementsAre;

TEST(MixtureWeights, AreTheSmallestIntegersInTheirProportion) {
  EXPECT_THAT(IntegerWeights({"7", "3"}).value(), ElementsAre(7, 3));
  EXPECT_THAT(IntegerWeights({"0.7", "0.3"}).value(), ElementsAre(7, 3));
  EXPECT_THAT(IntegerWeights({"14", "6"}).value(), ElementsAre(7, 3));
  EXPECT_THAT(IntegerWeights({"0.25", ".5", "1."}).value(), ElementsAre(1, 2, 4));
  EXPECT_THAT(IntegerWeights({"2.5"}).value(), ElementsAre(1));
  EXPECT_THAT(IntegerWeights({"1000000000", "0.000001"}).value(), ElementsAre(1'000'000'000'000'000, 1));
}

TEST(MixtureWeights, OtherTextIsRefused) {
  for (const char* text : {"", "0", "0.0", "-1", "1e3", "0x1", "nan", ".", "1.2.3", " 1", "0.0000001", "1000000001",
                           "99999999999999999999999999"}) {
    EXPECT_EQ(IntegerWeights({"1", text}).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace zerofleet::cli
