// The collective bench measures what it claims, briefly, between real processes.
#include "bench/collective_benches.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "services/session/rendezvous.h"

namespace zerofleet::bench {
namespace {

TEST(CollectiveBenchesTest, MeasuresEveryOperationBetweenProcesses) {
  const auto rates = BenchCollectives({.ranks = 2, .rounds = 1, .sizes_bytes = {1 << 16}});
  ASSERT_TRUE(rates.ok()) << rates.status();
  ASSERT_EQ(rates->size(), 5u);
  for (const CollectiveRate& rate : *rates) {
    EXPECT_EQ(rate.backend, "shared_memory");
    EXPECT_GT(rate.seconds, 0);
    const double factor = rate.operation == collective::Operation::kAllReduce ? 1.0 : 0.5;
    EXPECT_DOUBLE_EQ(rate.bus_bytes_per_second, (1 << 16) / rate.seconds * factor);
    EXPECT_GT(rate.memory_bytes_per_second, 0);
  }
}

TEST(CollectiveBenchesTest, MeasuresOneLevelAndTwoInOneRun) {
  const auto rates = BenchCollectives({.ranks = 4, .rounds = 1, .team = 2, .sizes_bytes = {1 << 16}});
  ASSERT_TRUE(rates.ok()) << rates.status();
  ASSERT_EQ(rates->size(), 10u);
  for (size_t i = 0; i < rates->size(); i += 2) {
    EXPECT_EQ((*rates)[i].team, 4);
    EXPECT_EQ((*rates)[i + 1].team, 2);
    EXPECT_EQ((*rates)[i + 1].operation, (*rates)[i].operation);
    EXPECT_GT((*rates)[i + 1].seconds, 0);
  }
}

TEST(CollectiveBenchesTest, RanksOfSeveralHostsMeetAndMeasureTheSame) {
  const auto server = *services::RendezvousServer::Start("127.0.0.1:0", 2);
  const std::string place = absl::StrCat("127.0.0.1:", server->port());
  std::vector<CollectiveRate> rates[2];
  const auto run = [&](int i) {
    auto measured =
        BenchCollectivesAcrossHosts({.rounds = 1, .sizes_bytes = {1 << 16}}, place, "here", [] { return false; });
    ASSERT_TRUE(measured.ok()) << measured.status();
    rates[i] = *std::move(measured);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  ASSERT_EQ(rates[0].size(), 5u);
  ASSERT_EQ(rates[1].size(), 5u);
  for (size_t i = 0; i < 5; i++) {
    EXPECT_EQ(rates[0][i].ranks, 2);
    EXPECT_EQ(rates[0][i].backend, "shared_memory");
    EXPECT_EQ(rates[0][i].seconds, rates[1][i].seconds);
    EXPECT_EQ(rates[0][i].memory_bytes_per_second, rates[1][i].memory_bytes_per_second);
  }
}

TEST(CollectiveBenchesTest, ReportsARankThatFails) {
  EXPECT_TRUE(absl::IsInternal(BenchCollectives({.backend = "nccl", .ranks = 2, .rounds = 1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(BenchCollectives({.ranks = 0}).status()));
}

}  // namespace
}  // namespace zerofleet::bench
