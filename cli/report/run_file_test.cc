// Reports read back: restarts, recoveries, torn and malformed lines.
#include "cli/report/run_file.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

std::string StepLine(int64_t step, double loss, int second) {
  return absl::StrCat(
      R"({"event":"step","time":"2026-11-25T10:00:)", second < 10 ? "0" : "", second, R"(.000000Z","step":)", step,
      R"(,"loss":)", loss,
      R"(,"grad_norm":1,"learning_rate":0.5,"tokens":100,"seconds":2,"tokens_per_second":50,"mfu":0.5})", "\n");
}

TEST(RunFile, StepsDoneAgainCountAsTheyWereToldLast) {
  const std::string text = absl::StrCat(
      R"({"event":"start","time":"2026-11-25T10:00:00.000000Z","world_size":2,"config":{"seed":1}})", "\n",
      StepLine(1, 5, 2), StepLine(2, 4, 4),
      R"({"event":"recovery","time":"2026-11-25T10:00:06.000000Z","resumed_step":1,"lost_steps":1,"seconds":1.5,"cause":"x"})",
      "\n", StepLine(2, 4.5, 8), R"({"event":"later","strange":[1]})", "\n",
      R"({"event":"evaluate","step":2,"loss":4.25,"sets":[{"name":"wiki","loss":4}]})", "\n");
  const RunFile run = ParseRunFile("r", text).value();
  EXPECT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps.at(2).loss, 4.5);
  EXPECT_EQ(run.steps_told, 3);
  EXPECT_EQ(run.wall_seconds, 8);
  EXPECT_EQ(run.Goodput(), 0.5);
  EXPECT_EQ(run.TokensPerSecond(), 50);
  EXPECT_EQ(run.Mfu(), 0.5);
  EXPECT_EQ(run.Count(ReportedPause::Kind::kRecovery), 1);
  EXPECT_EQ(run.pauses[0].at, 6);
  ASSERT_EQ(run.evaluations.size(), 2u);
  EXPECT_EQ(run.evaluations[0].loss, 4.25);
  EXPECT_EQ(run.evaluations[1].set, "wiki");
  EXPECT_EQ(run.evaluations[1].loss, 4);
  EXPECT_FALSE(run.torn);
}

TEST(RunFile, WhatARollbackLeavesOutDoesNotCount) {
  const auto evaluation = [](int step, double loss) {
    return absl::StrCat(R"({"event":"evaluate","step":)", step, R"(,"loss":)", loss, "}\n");
  };
  std::string text;
  for (int step = 1; step <= 4; ++step) absl::StrAppend(&text, StepLine(step, 2, step), evaluation(step, 3));
  absl::StrAppend(&text, R"({"event":"rollback","step":5,"resumed_step":2,"cause":"loss nan"})", "\n",
                  StepLine(3, 1, 5), evaluation(3, 1.5));
  const RunFile run = ParseRunFile("r", text).value();
  EXPECT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.steps.at(3).loss, 1);
  ASSERT_EQ(run.evaluations.size(), 3u);
  EXPECT_EQ(run.evaluations.back().loss, 1.5);
}

TEST(RunFile, ATornLastLineIsToldApart) {
  const RunFile run = ParseRunFile("r", StepLine(1, 5, 2) + R"({"event":"step","st)").value();
  EXPECT_TRUE(run.torn);
  EXPECT_EQ(run.steps.size(), 1u);
}

std::string StartLine(const char* run_id, int generation, const char* resumed_from, int second) {
  return absl::StrCat(R"({"event":"start","time":"2026-11-25T10:00:)", second, R"(.000000Z","run_id":")", run_id,
                      R"(","generation":)", generation, R"(,"resumed_from":)", resumed_from, "}\n");
}

TEST(RunFile, AnotherRunInTheSameFileBeginsAnew) {
  const std::string text =
      absl::StrCat(StartLine("a", 7, "null", 10), StepLine(1, 5, 12), StepLine(2, 4, 14), StepLine(3, 3, 16),
                   R"({"event":"evaluate","step":3,"loss":1})", "\n", R"({"event":"end","step":3})", "\n",
                   StartLine("b", 1, "null", 30), StepLine(1, 6, 32), StepLine(2, 5.5, 34));
  const RunFile run = ParseRunFile("r", text).value();
  EXPECT_EQ(run.name, "r");
  EXPECT_EQ(run.runs_before, 1);
  EXPECT_EQ(run.starts, 1);
  EXPECT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps.at(1).loss, 6);
  EXPECT_EQ(run.steps_told, 2);
  EXPECT_EQ(run.wall_seconds, 4);
  EXPECT_TRUE(run.end.is_null());
  EXPECT_TRUE(run.evaluations.empty());
  const std::string old = absl::StrCat(R"({"event":"start"})", "\n", StepLine(1, 5, 12));  // no run_id
  EXPECT_EQ(ParseRunFile("r", old + StartLine("a", 1, "1", 30) + StepLine(2, 4, 32))->steps.size(), 2u);
}

TEST(RunFile, ARunThatResumesDropsTheStepsThatItDoesAgain) {
  const std::string before = absl::StrCat(StartLine("a", 1, "null", 10), StepLine(1, 5, 12), StepLine(2, 4, 14),
                                          R"({"event":"evaluate","step":2,"loss":1})", "\n");
  const std::string end = absl::StrCat(R"({"event":"end","step":2,"stopped":true})", "\n");
  // A coordinator was restarted while its workers went on training.
  EXPECT_EQ(ParseRunFile("r", before + StartLine("a", 1, "null", 30))->steps.size(), 2u);
  const RunFile run = ParseRunFile("r", before + end + StartLine("a", 2, "1", 30)).value();
  EXPECT_EQ(run.runs_before, 0);
  EXPECT_EQ(run.starts, 2);
  EXPECT_EQ(run.steps.size(), 1u);
  EXPECT_TRUE(run.steps.contains(1));
  EXPECT_TRUE(run.evaluations.empty());
  EXPECT_TRUE(run.end.is_null());
}

TEST(RunFile, WhatIsNoNumberIsNone) {
  const RunFile run = ParseRunFile("r", R"({"event":"step","step":1,"loss":null,"tokens":5})"
                                        "\n")
                          .value();
  EXPECT_TRUE(std::isnan(run.steps.at(1).loss));
  EXPECT_TRUE(std::isnan(run.Goodput()));
}

TEST(RunFile, WhatIsNoReportIsRefusedByItsLine) {
  for (const auto& [text, named] : {std::pair<const char*, const char*>{"", "r: holds no step"},
                                    {"{}\n{\n", "r: line 2: "},
                                    {"[1]\n", "r: line 1: no JSON object"},
                                    {"{\"event\":\"step\",\"step\":-1}\n", "\"step\" must be a number >= 0"},
                                    {"{\"event\":\"step\",\"step\":1,\"loss\":\"x\"}\n", "\"loss\" must be a number"},
                                    {"{\"event\":7}\n", "\"event\" must be a text"},
                                    {"{\"time\":\"noon\"}\n", "\"time\" must be a time"}}) {
    const absl::Status status = ParseRunFile("r", text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(named));
  }
  EXPECT_EQ(ReadRunFile("/nowhere/r").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zerofleet::cli
