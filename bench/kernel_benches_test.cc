// The figures of a bench are complete and plausible; a test cannot judge how good they are.
#include "bench/kernel_benches.h"

#include "gtest/gtest.h"

namespace zerofleet::bench {
namespace {

TEST(KernelBenchesTest, OptimizerRatesFollowFromTheirParts) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  const auto rates = BenchOptimizer(*device, 100000, 2).value();
  ASSERT_EQ(rates.size(), 4u);
  EXPECT_EQ(rates[0].bytes_per_parameter, 28);  // adamw
  EXPECT_EQ(rates[1].bytes_per_parameter, 30);
  EXPECT_EQ(rates[2].bytes_per_parameter, 20);  // sgd
  EXPECT_EQ(rates[3].bytes_per_parameter, 22);
  for (const OptimizerRate& rate : rates) {
    EXPECT_GT(rate.seconds, 0);
    EXPECT_GT(rate.memory_bytes_per_second, 0);
    EXPECT_DOUBLE_EQ(rate.bytes_per_second,
                     static_cast<double>(rate.parameters * rate.bytes_per_parameter) / rate.seconds);
  }
}

TEST(KernelBenchesTest, GemmCoversEveryDirectionAndHeadInBothTypes) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  const GemmWork work = {.layers = {{"one", 64, 32, 16}, {"two", 8, 16, 32}}, .heads = {{"head", 8, 50, 16}}};
  const auto rates = BenchGemm(*device, work, 1).value();
  ASSERT_EQ(rates.size(), (2u * 3u + 1u) * 2u);
  for (const GemmRate& rate : rates) {
    EXPECT_GT(rate.flops_per_second, 0) << rate.layer;
    EXPECT_GT(rate.peak_flops_per_second, 0) << rate.layer;
  }
  EXPECT_EQ(rates[0].dtype, device::DType::kF32);
  EXPECT_EQ(rates[5].direction, "backward weight");
  EXPECT_EQ(rates.back().dtype, device::DType::kBF16);
  EXPECT_EQ(rates.back().direction, "forward and backward");
}

TEST(KernelBenchesTest, TheCpusWorkIsGpt2sLayers) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  const GemmWork work = Gpt2Gemms(*device);
  ASSERT_EQ(work.layers.size(), 7u);
  EXPECT_TRUE(work.heads.empty());
  EXPECT_EQ(work.layers[2].name, "gpt2-124m fc");
  EXPECT_EQ(work.layers[2].n, 4 * 768);
}

}  // namespace
}  // namespace zerofleet::bench
