// The collective bench measures what it says, briefly, between real processes.
#include "bench/collective_benches.h"

#include <gtest/gtest.h>

namespace zerofleet {
namespace {

TEST(CollectiveBenchesTest, MeasuresEveryOperationBetweenProcesses) {
  const auto rates = BenchCollectives({.ranks = 2, .rounds = 1, .sizes_bytes = {1 << 16}});
  ASSERT_TRUE(rates.ok()) << rates.status();
  ASSERT_EQ(rates->size(), 5u);
  for (const CollectiveRate& rate : *rates) {
    EXPECT_EQ(rate.backend, "ucx");
    EXPECT_GT(rate.seconds, 0);
    const double factor = rate.operation == Operation::kAllReduce ? 1.0 : 0.5;
    EXPECT_DOUBLE_EQ(rate.bus_bytes_per_second, (1 << 16) / rate.seconds * factor);
    EXPECT_GT(rate.memory_bytes_per_second, 0);
  }
}

TEST(CollectiveBenchesTest, ReportsARankThatFails) {
  EXPECT_TRUE(absl::IsInternal(BenchCollectives({.backend = "nccl", .ranks = 2, .rounds = 1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(BenchCollectives({.ranks = 0}).status()));
}

}  // namespace
}  // namespace zerofleet
