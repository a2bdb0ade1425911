// Choosing a token; the integration tests in tests/ cover loading and scoring.
#include "worker/inference/inference.h"

#include <cmath>

#include "gtest/gtest.h"

namespace zerofleet::inference {
namespace {

TEST(SampleToken, TemperatureZeroTakesTheLikeliest) {
  EXPECT_EQ(SampleToken(std::vector<float>{0, 3, 1}, 0, 0, 0.99), 1);
}

TEST(SampleToken, TopOneIsTheLikeliestAtAnyTemperature) {
  EXPECT_EQ(SampleToken(std::vector<float>{0, 3, 1}, 5.0, 1, 0.99), 1);
}

TEST(SampleToken, FollowsTheProbabilities) {
  std::vector<float> logits = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  int counts[3] = {};
  for (int i = 0; i < 1000; ++i) ++counts[SampleToken(logits, 1.0, 0, i / 1000.0)];
  EXPECT_NEAR(counts[0], 200, 2);
  EXPECT_NEAR(counts[1], 500, 2);
  EXPECT_NEAR(counts[2], 300, 2);
}

TEST(InferenceModel, AMissingCheckpointIsNamed) {
  absl::Status status = InferenceModel::Load("no/such/step", {.kind = "cpu", .threads = 1}, 1).status();
  EXPECT_NE(std::string(status.message()).find("no/such/step"), std::string::npos);
}

}  // namespace
}  // namespace zerofleet::inference
