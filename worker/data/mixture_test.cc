// A mixture's order: exact in every cycle, each set in its own order, one set as without a mixture.
#include "worker/data/mixture.h"

#include <array>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array<int64_t, 3> kSamples = {50, 7, 20};
constexpr std::array<int64_t, 3> kWeights = {7, 2, 1};

TEST(MixtureTest, EveryCycleHasEverySetsPart) {
  const Mixture mixture(9, kSamples, kWeights);
  for (int64_t cycle = 0; cycle < 40; ++cycle) {
    std::vector<int64_t> counts(3);
    for (int64_t i = 0; i < 10; ++i) ++counts[mixture.Set(10 * cycle + i)];
    EXPECT_THAT(counts, ElementsAre(7, 2, 1)) << cycle;
  }
}

// Cycles differ from one another, and so do seeds.
TEST(MixtureTest, TheSlotsOfACycleAreShuffled) {
  const Mixture one(1, kSamples, kWeights), two(2, kSamples, kWeights);
  std::map<std::vector<int>, int> orders;
  int same = 0;
  for (int64_t cycle = 0; cycle < 40; ++cycle) {
    std::vector<int> first, second;
    for (int64_t i = 0; i < 10; ++i) {
      first.push_back(one.Set(10 * cycle + i));
      second.push_back(two.Set(10 * cycle + i));
    }
    ++orders[first];
    same += first == second;
  }
  EXPECT_GT(orders.size(), 20u);
  EXPECT_LT(same, 10);
}

TEST(MixtureTest, ASetsEpochVisitsEachOfItsSamplesOnce) {
  const Mixture mixture(9, kSamples, kWeights);
  std::vector<std::vector<int64_t>> seen(3);
  for (int64_t position = 0; position < 500; ++position) {
    const int64_t sample = mixture.Sample(position);
    const int set = sample < 50 ? 0 : sample < 57 ? 1 : 2;
    EXPECT_EQ(set, mixture.Set(position));
    seen[set].push_back(sample);
  }
  const std::array<int64_t, 3> firsts = {0, 50, 57};
  for (int d = 0; d < 3; ++d) {
    for (size_t epoch = 0; (epoch + 1) * kSamples[d] <= seen[d].size(); ++epoch) {
      // A cycle at the end of an epoch may visit samples of the next epoch before the last ones of this.
      if (kSamples[d] % kWeights[d] != 0) continue;
      std::map<int64_t, int> times;
      for (int64_t i = 0; i < kSamples[d]; ++i) ++times[seen[d][epoch * kSamples[d] + i]];
      EXPECT_EQ(times.size(), static_cast<size_t>(kSamples[d])) << d;
      EXPECT_EQ(times.begin()->first, firsts[d]);
    }
    std::map<int64_t, int> times;
    for (const int64_t sample : seen[d]) ++times[sample];
    const int most = static_cast<int>(seen[d].size() / kSamples[d]) + 1;
    for (const auto& [sample, count] : times) EXPECT_LE(count, most) << sample;
  }
}

TEST(MixtureTest, OneSetAndNoWeightsAreTheSamplersOrder) {
  const Sampler sampler(42, 77), alone(42, 50);
  const Mixture plain(42, kSamples, {});
  const std::array<int64_t, 1> samples = {50}, weight = {3};
  const Mixture one(42, samples, weight);
  for (int64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(plain.Sample(position), sampler.Sample(position));
    EXPECT_EQ(one.Sample(position), alone.Sample(position));
  }
}

// A promise, like the sampler's order: a checkpoint resumed by a later version must continue it. Only the proportions
// of weights matter.
TEST(MixtureTest, TheOrderNeverChanges) {
  const std::array<int64_t, 3> doubled = {14, 4, 2};
  std::vector<int64_t> order, again;
  for (int64_t position = 0; position < 12; ++position) {
    order.push_back(Mixture(1, kSamples, kWeights).Sample(position));
    again.push_back(Mixture(1, kSamples, doubled).Sample(position));
  }
  EXPECT_EQ(order, again);
  EXPECT_THAT(order, ElementsAre(15, 21, 18, 50, 24, 26, 52, 1, 72, 19, 53, 25));
}

TEST(MixtureTest, CountsWhatHasBeenTaken) {
  const Mixture mixture(5, kSamples, kWeights);
  std::vector<int64_t> counts(3);
  for (int64_t end = 0; end < 35; ++end) {
    EXPECT_EQ(mixture.Counts(end), counts) << end;
    ++counts[mixture.Set(end)];
  }
}

TEST(MixtureTest, WeightsAreOneEachAndBounded) {
  v1::DataConfig config;
  EXPECT_TRUE(CheckWeights(config).ok());
  config.add_train("a");
  config.add_train("b");
  EXPECT_TRUE(CheckWeights(config).ok());
  config.add_train_weights(7);
  EXPECT_THAT(CheckWeights(config).message(), HasSubstr("one weight for each entry of data.train, 2, got 1"));
  config.add_train_weights(0);
  EXPECT_THAT(CheckWeights(config).message(), HasSubstr("a weight must be >= 1, got 0"));
  config.set_train_weights(1, kLongestCycle - 7);
  EXPECT_TRUE(CheckWeights(config).ok());
  for (const int64_t most : {kLongestCycle - 6, INT64_MAX}) {
    config.set_train_weights(1, most);
    EXPECT_THAT(CheckWeights(config).message(), HasSubstr("at most 1000000 in all"));
  }
}

TEST(MixtureTest, SetsHaveNames) {
  const auto check = [](std::vector<std::string> names) {
    v1::DataConfig config;
    for (int i = 0; i < 3; ++i) config.add_validation("a");
    for (const std::string& name : names) config.add_validation_sets(name);
    return std::string(CheckSetNames(config).message());
  };
  EXPECT_EQ(check({}), "");
  EXPECT_EQ(check({"wiki", "wiki", "code-2.0"}), "");
  EXPECT_THAT(check({"wiki"}), HasSubstr("one name for each entry of data.validation, 3, got 1"));
  EXPECT_THAT(check({"wiki", "code", "wiki"}), HasSubstr("the entries of wiki must follow one another"));
  EXPECT_THAT(check({"wiki", "", "wiki"}), HasSubstr("a set's name must be 1 to 64"));
  EXPECT_THAT(check({"wiki", "a\"b", "wiki"}), HasSubstr("a set's name must be 1 to 64"));
}

}  // namespace
}  // namespace zerofleet::data
