// Figures in the report's terms.
#include "worker/trainer/rank_report.h"

#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "coordinator/placement.h"
#include "gtest/gtest.h"
#include "worker/collective/in_process.h"

namespace zerofleet::trainer {
namespace {

TEST(RankReport, HoldsMemoryAndCollectives) {
  std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  memory::MemoryPlan plan{{{memory::Space::kDevice, memory::Category::kOptimizer, "states", 4000},
                           {memory::Space::kHost, memory::Category::kBuffers, "snapshot", 100}}};
  std::unique_ptr<memory::Arena> on_device = *memory::Arena::Create(plan, memory::Space::kDevice, *device),
                                 on_host = *memory::Arena::Create(plan, memory::Space::kHost, *device);
  on_device->Take("states");
  std::vector<std::unique_ptr<collective::Communicator>> group =
      collective::CreateInProcessGroup(parallel::kDataGroup, 2);
  std::vector<float> a(100), b(100);
  collective::Communicator::Pending other = group[1]->AllReduce({b.data(), device::DType::kF32}, 100, "x");
  ASSERT_TRUE(group[0]->AllReduce({a.data(), device::DType::kF32}, 100, "x").Wait().ok());
  ASSERT_TRUE(other.Wait().ok());
  group.pop_back();
  v1::RankReport report = BuildRankReport(0, *on_device, *on_host, parallel::GroupCommunicators(std::move(group)),
                                          {.to_host = {2, 64}, .to_device = {3, 96}});
  EXPECT_EQ(report.device_memory().at("optimizer").current(), 4000);
  EXPECT_EQ(report.device_memory().size(), 7u);
  EXPECT_EQ(report.host_memory().at("buffers").current(), 0);
  EXPECT_GT(report.rss_peak_bytes(), 0);
  ASSERT_EQ(report.collectives_size(), 1);
  EXPECT_EQ(report.collectives(0).operation(), "all_reduce");
  EXPECT_EQ(report.collectives(0).bytes(), 400);
  ASSERT_EQ(report.link_size(), 2);
  EXPECT_EQ(report.link(0).direction(), "to_host");
  EXPECT_EQ(report.link(0).bytes(), 64);
  EXPECT_EQ(report.link(1).direction(), "to_device");
  EXPECT_EQ(report.link(1).copies(), 3);
}

// Entries that the coordinator would drop are not sent: in a large view only the newest few are left, of whichever
// group.
TEST(Flight, HasTheNewestAndNoMoreThanAreKept) {
  std::vector<std::unique_ptr<collective::Communicator>> groups;
  const auto run = [&](const std::string& name, const std::string& unit) {
    if (groups.empty() || groups.back()->group() != name) {
      groups.push_back(std::move(collective::CreateInProcessGroup(name, 1).front()));
    }
    std::vector<float> a(4);
    ZF_CHECK(groups.back()->AllReduce({a.data(), device::DType::kF32}, 4, unit).Wait().ok());
  };
  for (int i = 0; i < 8; ++i) run("first", "old");
  for (int i = 0; i < 2; ++i) run(parallel::kDataGroup, "new");
  std::swap(groups[0], groups[1]);
  const parallel::GroupCommunicators communicators(std::move(groups));
  const double now = Clock::Real().MonotonicSeconds();
  EXPECT_EQ(FlightOf(0, 2, communicators, now).entries_size(), 10);
  const v1::FlightRecord cut = FlightOf(5, 1 << 14, communicators, now);
  ASSERT_EQ(cut.entries_size(), coordinator::MostFlightEntries(1 << 14));
  EXPECT_EQ(cut.rank(), 5);
  EXPECT_EQ(cut.entries(0).unit(), "old");
  EXPECT_EQ(cut.entries(2).unit(), "new");
  EXPECT_EQ(cut.entries(3).unit(), "new");
  EXPECT_EQ(cut.entries(3).sequence(), cut.entries(2).sequence() + 1);
}

TEST(BusBandwidth, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusBandwidth(collective::Operation::kAllGather, 4, 1000, 2.0), 375);
  EXPECT_DOUBLE_EQ(BusBandwidth(collective::Operation::kAllReduce, 4, 1000, 2.0), 750);
  EXPECT_DOUBLE_EQ(BusBandwidth(collective::Operation::kAllGather, 1, 1000, 0.0), 0);
}

}  // namespace
}  // namespace zerofleet::trainer
