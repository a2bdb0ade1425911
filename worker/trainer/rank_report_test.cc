// Figures in the report's terms.
#include "worker/trainer/rank_report.h"

#include <thread>

#include "gtest/gtest.h"
#include "worker/collective/in_process.h"

namespace zerofleet {
namespace {

TEST(RankReport, HoldsMemoryAndCollectives) {
  std::unique_ptr<Device> device = *CreateDevice({.kind = "cpu", .threads = 1});
  MemoryPlan plan{
      {{Space::kDevice, Category::kOptimizer, "states", 4000}, {Space::kHost, Category::kBuffers, "snapshot", 100}}};
  std::unique_ptr<Arena> on_device = *Arena::Create(plan, Space::kDevice, *device),
                         on_host = *Arena::Create(plan, Space::kHost, *device);
  on_device->Take("states");
  std::vector<std::unique_ptr<Communicator>> group = CreateInProcessGroup(kDataGroup, 2);
  std::vector<float> a(100), b(100);
  Communicator::Pending other = group[1]->AllReduce({b.data(), DType::kF32}, 100, "x");
  ASSERT_TRUE(group[0]->AllReduce({a.data(), DType::kF32}, 100, "x").Wait().ok());
  ASSERT_TRUE(other.Wait().ok());
  group.pop_back();
  v1::RankReport report = BuildRankReport(0, *on_device, *on_host, GroupCommunicators(std::move(group)));
  EXPECT_EQ(report.device_memory().at("optimizer").current(), 4000);
  EXPECT_EQ(report.device_memory().size(), 6u);
  EXPECT_EQ(report.host_memory().at("buffers").current(), 0);
  EXPECT_GT(report.rss_peak_bytes(), 0);
  ASSERT_EQ(report.collectives_size(), 1);
  EXPECT_EQ(report.collectives(0).operation(), "all_reduce");
  EXPECT_EQ(report.collectives(0).bytes(), 400);
}

TEST(BusBandwidth, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusBandwidth(Operation::kAllGather, 4, 1000, 2.0), 375);
  EXPECT_DOUBLE_EQ(BusBandwidth(Operation::kAllReduce, 4, 1000, 2.0), 750);
  EXPECT_DOUBLE_EQ(BusBandwidth(Operation::kAllGather, 1, 1000, 0.0), 0);
}

}  // namespace
}  // namespace zerofleet
