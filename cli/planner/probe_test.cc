// Which runs predict a step's time, and with which weights. An integration test makes such runs.
#include "cli/planner/probe.h"

#include "cli/config/config.h"
#include "cli/planner/traffic.h"
#include "gtest/gtest.h"
#include "worker/model/checkpointing.h"

namespace zerofleet::cli {
namespace {

v1::Config Of(int64_t layers, int64_t micro_batches) {
  v1::Config config = WithMicroBatches(DefaultConfig("gpt2-tiny").value(), micro_batches);
  config.mutable_model()->set_layers(layers);
  return config;
}

// The time of a step that is bilinear, as in equations (1) of docs/planning.md.
double Seconds(int64_t layers, int64_t micro_batches) {
  const auto l = static_cast<double>(layers), m = static_cast<double>(micro_batches);
  return 3 + 5 * l + m * (7 + 11 * l);
}

double Predicted(const v1::Config& config) {
  double sum = 0;
  for (const ProbePoint& point : ProbePoints(config)) sum += point.weight * Seconds(point.layers, point.micro_batches);
  return sum;
}

TEST(Probe, AStepThatIsLinearInLayersAndMicroBatchesIsPredictedExactly) {
  for (const int64_t layers : {1, 2, 3, 4, 7, 12, 48, 96}) {
    for (const int64_t micro_batches : {1, 2, 3, 4, 8, 64}) {
      EXPECT_NEAR(Predicted(Of(layers, micro_batches)) / Seconds(layers, micro_batches), 1, 1e-12)
          << layers << " layers, " << micro_batches << " micro-batches";
    }
  }
}

TEST(Probe, RunsAreSmallerThanTheModel) {
  for (const ProbePoint& point : ProbePoints(Of(48, 64))) {
    EXPECT_LE(point.layers, 9);
    EXPECT_LE(point.micro_batches, 4);
  }
  for (const ProbePoint& point : ProbePoints(Of(12, 1))) {
    EXPECT_LE(point.layers, 7);
    EXPECT_EQ(point.micro_batches, 1) << "a single micro-batch keeps gradients in another type than several";
  }
}

TEST(Probe, WhatIsSmallIsTimedAsItIs) {
  const std::vector<ProbePoint> points = ProbePoints(Of(1, 2));
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].layers, 1);
  EXPECT_EQ(points[0].micro_batches, 2);
  EXPECT_EQ(points[0].weight, 1);
}

TEST(Probe, AModelOfWhichPatternsNameLayersIsTimedAsItIs) {
  v1::Config config = Of(12, 2);
  config.mutable_model()->add_freeze("model.layers.1.*");
  const std::vector<ProbePoint> points = ProbePoints(config);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].layers, 12);
}

TEST(Probe, CostsThePartOfItsStepsThatItRuns) {
  // Three rounds, each a start and 7 steps; short steps are repeated for a second.
  EXPECT_DOUBLE_EQ(ProbeCost({Of(4, 2), {{.layers = 2, .micro_batches = 2}}}, 20), 3 * (0.5 + 7 * 10));
  EXPECT_DOUBLE_EQ(ProbeCost({Of(4, 2), {{.layers = 4, .micro_batches = 2}}}, 0), 3 * (0.5 + 1));
  const v1::Config config = Of(4, 2);
  EXPECT_DOUBLE_EQ(ProbeCost({config, WholeStep(config)}, 1), 3 * (0.5 + 7));
}

// How much a segment's backward recomputes depends on its number of blocks, and the last segment recomputes nothing.
TEST(Probe, SegmentsStayWhole) {
  v1::Config config = Of(14, 1);
  config.mutable_activation()->set_checkpointing(model::EveryText(4));
  for (const ProbePoint& point : ProbePoints(config)) EXPECT_EQ(point.layers % 4, 14 % 4) << point.layers;
  EXPECT_NEAR(Predicted(config) / Seconds(14, 1), 1, 1e-12);
}

}  // namespace
}  // namespace zerofleet::cli
