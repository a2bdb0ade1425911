// Which tokens may be chosen, and how often.
#include "worker/inference/sampling.h"

#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::inference {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pair;

const std::vector<float> kScores = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};

// How often each token is chosen, of a thousand evenly spread draws.
std::map<int32_t, double> Chosen(const Sampling& sampling, const std::vector<int32_t>& seen = {}) {
  std::map<int32_t, double> chosen;
  for (int i = 0; i < 1000; ++i) ++chosen[SampleToken(kScores, sampling, seen, i / 1000.0)];
  return chosen;
}

TEST(SampleTokenTest, TemperatureZeroTakesTheLikeliest) {
  EXPECT_THAT(Chosen({.temperature = 0}), ElementsAre(Pair(1, 1000)));
  EXPECT_EQ(SampleToken({2, 3, 3}, {.temperature = 0}, {}, 0.99), 1);
}

TEST(SampleTokenTest, FollowsTheProbabilities) {
  EXPECT_THAT(Chosen({}),
              ElementsAre(Pair(0, DoubleNear(200, 2)), Pair(1, DoubleNear(500, 2)), Pair(2, DoubleNear(300, 2))));
}

TEST(SampleTokenTest, TopKKeepsTheLikeliest) {
  EXPECT_THAT(Chosen({.temperature = 5, .top_k = 1}), ElementsAre(Pair(1, 1000)));
  EXPECT_THAT(Chosen({.top_k = 2}), ElementsAre(Pair(1, DoubleNear(625, 2)), Pair(2, DoubleNear(375, 2))));
}

TEST(SampleTokenTest, TopPKeepsTheFewestThatAreEnough) {
  EXPECT_THAT(Chosen({.top_p = 0.4}), ElementsAre(Pair(1, 1000)));
  EXPECT_THAT(Chosen({.top_p = 0.6}), ElementsAre(Pair(1, DoubleNear(625, 2)), Pair(2, DoubleNear(375, 2))));
  EXPECT_EQ(Chosen({.top_p = 0.9}).size(), 3);
}

TEST(SampleTokenTest, MinPIsAPartOfTheLikeliest) {
  EXPECT_THAT(Chosen({.min_p = 0.5}), ElementsAre(Pair(1, DoubleNear(625, 2)), Pair(2, DoubleNear(375, 2))));
  EXPECT_THAT(Chosen({.min_p = 1}), ElementsAre(Pair(1, 1000)));
}

TEST(SampleTokenTest, WhatHasOccurredIsLessLikely) {
  EXPECT_EQ(SampleToken({2, 3, -1}, {.repetition_penalty = 2, .temperature = 0}, std::vector<int32_t>{1, 1}, 0), 0);
  EXPECT_EQ(SampleToken({-2, -1.5, -9}, {.repetition_penalty = 2, .temperature = 0}, std::vector<int32_t>{1}, 0), 0);
}

}  // namespace
}  // namespace zerofleet::inference
