// The figures of a bench are complete and plausible; a test cannot judge how good they are.
#include "bench/layer_benches.h"

#include "bench/device_timing.h"
#include "gtest/gtest.h"

namespace zerofleet::bench {
namespace {

TEST(LayerBenchesTest, AttentionCoversBothDirectionsInBothTypes) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  const auto rates =
      BenchAttention(*device, {{"small", {.batch = 2, .time = 16, .heads = 2, .head_size = 8}}}, 1).value();
  ASSERT_EQ(rates.size(), 4u);
  for (const AttentionRate& rate : rates) {
    EXPECT_GT(rate.flops_per_second, 0) << rate.direction;
    EXPECT_GT(rate.peak_flops_per_second, 0) << rate.direction;
  }
  EXPECT_EQ(rates[1].direction, "backward");
  EXPECT_EQ(rates[2].dtype, device::DType::kBF16);
}

TEST(LayerBenchesTest, PointwiseCoversEveryOpInBothTypes) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  const auto rates = BenchPointwise(*device, 64, 48, 1).value();
  ASSERT_EQ(rates.size(), 2u * 7 + 2);
  for (const PointwiseRate& rate : rates) {
    EXPECT_GT(rate.bytes_per_second, 0) << rate.op;
    EXPECT_GT(rate.memory_bytes_per_second, 0) << rate.op;
  }
}

TEST(DeviceTimingTest, TheCpuKeepsOneSetOfOperands) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  EXPECT_EQ(SetsToRotate(*device, 1000), 1);
  EXPECT_EQ(BenchTypes(*device).size(), 2u);
}

// Uncounted launches come first, and launch numbers never repeat.
TEST(DeviceTimingTest, LaunchNumbersGrow) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  const auto stream = device->CreateStream().value();
  int64_t next = 0;
  const auto seconds = BestLaunchSeconds(*device, *stream, 3, [&](int64_t number) { EXPECT_EQ(number, next++); });
  EXPECT_TRUE(seconds.ok());
  EXPECT_EQ(next, 4);
}

}  // namespace
}  // namespace zerofleet::bench
