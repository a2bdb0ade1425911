// Lines are JSON whatever the message holds, and carry rank, generation and step.
#include "services/common/logging.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<json> Lines(const std::ostringstream& out) {
  std::vector<json> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(Logger, WritesOneObjectALine) {
  std::ostringstream out;
  FakeClock clock;
  clock.Advance(1.5);
  Logger logger(LogLevel::kInfo, out, clock);
  logger.Info("hello");
  EXPECT_EQ(out.str(),
            "{\"time\":\"1970-01-01T00:00:01.500000Z\",\"level\":\"info\",\"rank\":null,\"generation\":null,"
            "\"step\":null,\"trace_id\":null,\"message\":\"hello\"}\n");
}

TEST(Logger, SaysRankGenerationAndStepOnceKnown) {
  std::ostringstream out;
  FakeClock clock;
  Logger logger(LogLevel::kInfo, out, clock);
  logger.SetRank(0);
  logger.SetGeneration(7);
  logger.SetStep(100);
  logger.SetTrace("4bf92f3577b34da6a3ce929d0e0e4736");
  logger.Error("lost rank 1");
  const json line = Lines(out).at(0);
  EXPECT_EQ(line["rank"], 0);
  EXPECT_EQ(line["generation"], 7);
  EXPECT_EQ(line["step"], 100);
  EXPECT_EQ(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(line["level"], "error");
}

TEST(Logger, EscapesWhateverTheMessageHolds) {
  std::ostringstream out;
  FakeClock clock;
  Logger logger(LogLevel::kDebug, out, clock);
  const std::string awkward = "quote \" backslash \\ newline \n tab \t bell \a format {} {0} %v ü \xE2\x82\xAC";
  logger.Debug(awkward);
  logger.Debug(std::string("nul \0 inside", 12));
  logger.Debug("not utf-8: \xff\xfe");
  const std::vector<json> lines = Lines(out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["message"], awkward);
  EXPECT_EQ(lines[1]["message"], std::string("nul \0 inside", 12));
  EXPECT_THAT(lines[2]["message"].get<std::string>(), HasSubstr("not utf-8: \xEF\xBF\xBD"));
}

TEST(Logger, LeavesOutWhatIsBelowItsLevel) {
  std::ostringstream out;
  FakeClock clock;
  Logger logger(LogLevel::kWarning, out, clock);
  logger.Debug("a");
  logger.Info("b");
  logger.Warning("c");
  logger.Error("d");
  const std::vector<json> lines = Lines(out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["message"], "c");
  EXPECT_EQ(lines[1]["message"], "d");
}

TEST(Logger, LinesOfSeveralThreadsStayWhole) {
  constexpr int kThreads = 4, kLinesEach = 200;
  std::ostringstream out;
  FakeClock clock;
  Logger logger(LogLevel::kInfo, out, clock);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kLinesEach; ++j) logger.Info(std::string(100, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Lines(out).size(), static_cast<size_t>(kThreads * kLinesEach));
}

TEST(LogLevel, ComesFromTheFlagThenTheEnvironment) {
  unsetenv("ZEROFLEET_LOG_LEVEL");
  EXPECT_EQ(*LogLevelFromFlagOrEnvironment(""), LogLevel::kWarning);
  setenv("ZEROFLEET_LOG_LEVEL", "debug", 1);
  EXPECT_EQ(*LogLevelFromFlagOrEnvironment(""), LogLevel::kDebug);
  EXPECT_EQ(*LogLevelFromFlagOrEnvironment("error"), LogLevel::kError);
  setenv("ZEROFLEET_LOG_LEVEL", "loud", 1);
  const absl::Status status = LogLevelFromFlagOrEnvironment("").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ZEROFLEET_LOG_LEVEL: log level \"loud\""));
  unsetenv("ZEROFLEET_LOG_LEVEL");
}

}  // namespace
}  // namespace zerofleet::services
