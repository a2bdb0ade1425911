// Choosing a token; the integration tests in tests/ cover loading and scoring.
#include "worker/inference/inference.h"

#include <cmath>

#include "gtest/gtest.h"

namespace zerofleet::inference {
namespace {

TEST(InferenceModel, AMissingCheckpointIsNamed) {
  absl::Status status = InferenceModel::Load("no/such/step", {.kind = "cpu", .threads = 1}, 1).status();
  EXPECT_NE(std::string(status.message()).find("no/such/step"), std::string::npos);
}

}  // namespace
}  // namespace zerofleet::inference
