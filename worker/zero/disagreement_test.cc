// Majorities, ties, and the verdict's way through a status.
#include "worker/zero/disagreement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DigestBits kA = {1, 2}, kB = {1, 3}, kC = {2, 2};

TEST(Judge, EqualAnswersAndNoneAreNoDisagreement) {
  EXPECT_FALSE(Judge({}));
  EXPECT_FALSE(Judge({{4, kA}}));
  EXPECT_FALSE(Judge({{0, kA}, {1, kA}, {2, kA}}));
}

TEST(Judge, AMajorityNamesTheOthers) {
  std::optional<v1::Disagreement> verdict = Judge({{0, kA}, {3, kB}, {5, kA}});
  ASSERT_TRUE(verdict);
  EXPECT_FALSE(verdict->undecided());
  EXPECT_THAT(verdict->ranks(), ElementsAre(3));
  verdict = Judge({{4, kC}, {0, kB}, {1, kA}, {2, kB}, {3, kB}});
  ASSERT_TRUE(verdict);
  EXPECT_FALSE(verdict->undecided());
  EXPECT_THAT(verdict->ranks(), ElementsAre(1, 4));
}

TEST(Judge, WithoutAMajorityAllAreNamedAndNoneIsBlamed) {
  for (const std::vector<Answer>& answers : {std::vector<Answer>{{1, kA}, {0, kB}},
                                             {{0, kA}, {1, kA}, {0, kB}, {1, kB}},
                                             {{0, kA}, {1, kB}, {1, kB}, {0, kC}}}) {
    const std::optional<v1::Disagreement> verdict = Judge(answers);
    ASSERT_TRUE(verdict);
    EXPECT_TRUE(verdict->undecided());
    EXPECT_THAT(verdict->ranks(), ElementsAre(0, 1));
  }
}

TEST(JoinVerdicts, WhatIsDecidedOutweighsWhatIsNot) {
  const v1::Disagreement tie = *Judge({{0, kA}, {1, kB}}), two = *Judge({{2, kA}, {1, kB}, {0, kA}});
  const v1::Disagreement three = *Judge({{3, kA}, {1, kB}, {0, kB}});
  EXPECT_FALSE(JoinVerdicts({tie, two, three}).undecided());
  EXPECT_THAT(JoinVerdicts({tie, two, three}).ranks(), ElementsAre(1, 3));
  EXPECT_TRUE(JoinVerdicts({tie}).undecided());
  EXPECT_THAT(JoinVerdicts({tie}).ranks(), ElementsAre(0, 1));
}

TEST(DisagreementError, CarriesTheVerdict) {
  const absl::Status status = DisagreementError(*Judge({{7, kA}, {8, kB}, {9, kA}}), 12, "the parameters");
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("step 12: rank 8 disagrees with the majority on the parameters"));
  const std::optional<v1::Disagreement> verdict = DisagreementOf(status);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks(), ElementsAre(8));
  EXPECT_FALSE(DisagreementOf(absl::AbortedError("")));
  EXPECT_FALSE(DisagreementOf(absl::OkStatus()));
}

}  // namespace
}  // namespace zerofleet::zero
