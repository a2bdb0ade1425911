// Every epoch is a permutation that depends on seed and epoch alone, and looks like a shuffle.
#include "worker/data/sampler.h"

#include <cmath>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

std::vector<int64_t> Epoch(const Sampler& sampler, int64_t samples, int64_t epoch) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < samples; ++i) order.push_back(sampler.Sample(epoch * samples + i));
  return order;
}

TEST(SamplerTest, EveryEpochVisitsEverySampleOnce) {
  for (int64_t samples : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097, 100003}) {
    Sampler sampler(7, samples);
    for (int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{1} << 40}) {
      std::vector<int64_t> order = Epoch(sampler, samples, epoch);
      std::set<int64_t> seen(order.begin(), order.end());
      EXPECT_EQ(seen.size(), static_cast<size_t>(samples)) << samples;
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), samples - 1);
    }
  }
}

TEST(SamplerTest, SeedAndEpochAloneDecide) {
  std::vector<int64_t> first = Epoch(Sampler(1, 1000), 1000, 0);
  EXPECT_EQ(first, Epoch(Sampler(1, 1000), 1000, 0));
  EXPECT_NE(first, Epoch(Sampler(1, 1000), 1000, 1));
  EXPECT_NE(first, Epoch(Sampler(2, 1000), 1000, 0));
  // The next seed's epoch must not be this seed's next epoch.
  EXPECT_NE(Epoch(Sampler(1, 1000), 1000, 1), Epoch(Sampler(2, 1000), 1000, 0));
}

// The order is a promise: a checkpoint resumed by a later version must continue it.
TEST(SamplerTest, TheOrderNeverChanges) {
  EXPECT_EQ(Epoch(Sampler(1, 10), 10, 0), (std::vector<int64_t>{4, 3, 2, 7, 8, 6, 1, 0, 9, 5}));
  EXPECT_EQ(Sampler(42, 1000000).Sample(1234567), 839579);
}

// In a random permutation of n the expected number of fixed points is 1 and of successors that stay adjacent 1; the
// correlation of place and sample is about 1/sqrt(n).
TEST(SamplerTest, LooksLikeAShuffle) {
  constexpr int64_t kSamples = 20000;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<int64_t> order = Epoch(Sampler(seed, kSamples), kSamples, 3);
    int fixed = 0, adjacent = 0;
    double covariance = 0;
    const double mean = (kSamples - 1) / 2.0, variance = (double{kSamples} * kSamples - 1) / 12;
    for (int64_t i = 0; i < kSamples; ++i) {
      fixed += order[i] == i;
      adjacent += i > 0 && order[i] == order[i - 1] + 1;
      covariance += (static_cast<double>(i) - mean) * (static_cast<double>(order[i]) - mean) / kSamples;
    }
    EXPECT_LE(fixed, 8);
    EXPECT_LE(adjacent, 8);
    EXPECT_LT(std::abs(covariance / variance), 5 / std::sqrt(double{kSamples}));
  }
}

TEST(SamplerTest, HugeCountsStayInRange) {
  const int64_t samples = (int64_t{1} << 62) + 12345;
  Sampler sampler(3, samples);
  for (int64_t position : {int64_t{0}, int64_t{1}, samples - 1, samples, INT64_MAX}) {
    int64_t sample = sampler.Sample(position);
    EXPECT_GE(sample, 0);
    EXPECT_LT(sample, samples);
  }
}

}  // namespace
}  // namespace zerofleet::data
