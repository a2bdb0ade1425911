// The offload benches give plausible rates for a small model.
#include "bench/offload_benches.h"

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet::bench {
namespace {

TEST(OffloadBenches, EveryOptimizerHasARate) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  const auto rates = BenchHostUpdate(*device, model::TestModelConfig(2, 24, 3, 10, 53), 1).value();
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].optimizer, "adamw on the host");
  EXPECT_EQ(rates[0].bytes_per_parameter, 28);
  EXPECT_EQ(rates[1].bytes_per_parameter, 20);
  for (const OptimizerRate& rate : rates) {
    EXPECT_GT(rate.bytes_per_second, 0);
    EXPECT_GT(rate.memory_bytes_per_second, 0);
  }
}

TEST(OffloadBenches, StatesOnDiskStandBesideTheDisk) {
  const auto device = device::CreateDevice({.kind = "cpu"}).value();
  const auto rates =
      BenchUpdateOnDisk(*device, model::TestModelConfig(2, 24, 3, 10, 53), testing::TempDir(), 1).value();
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].optimizer, "adamw, states in a file");
  EXPECT_EQ(rates[0].bytes_per_parameter, 24);
  EXPECT_GT(rates[0].bytes_per_second, 0);
  EXPECT_GT(rates[0].memory_bytes_per_second, 0);
}

}  // namespace
}  // namespace zerofleet::bench
