// Parts of two ranks become one file on one axis; parts of an earlier run do not.
#include "cli/report/trace_parts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

// A part in the form that StepTrace::Json writes.
std::string PartOf(int rank, int64_t origin, const std::string& began) {
  return absl::StrCat(R"({"displayTimeUnit":"ms","otherData":{"dropped":)", rank, R"(,"origin_unix_us":)", origin,
                      "},\n\"traceEvents\":[\n", R"({"ph":"M","pid":)", rank,
                      R"(,"tid":0,"name":"process_name","args":{"name":"rank"}})", ",\n", R"({"ph":"X","pid":)", rank,
                      R"(,"tid":7,"ts":)", began, R"(,"dur":2.000,"name":"\"ts\":5","args":{}})", "\n]}\n");
}

class TracePartsTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(testing::TempDir(), "/trace_parts_", getpid());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
    for (int i = 0; i < 2; ++i) parts_.push_back(absl::StrCat(directory_, "/", i));
    file_ = absl::StrCat(directory_, "/trace.json");
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }
  void Write(int part, const std::string& text) { ASSERT_TRUE(WriteFileAtomically(parts_[part], text).ok()); }
  nlohmann::json File() const { return nlohmann::json::parse(ReadSmallFile(file_, 1 << 20).value()); }

  std::string directory_, file_;
  std::vector<std::string> parts_;
};

TEST_F(TracePartsTest, JoinsWhatThereIs) {
  constexpr int64_t kToday = 1'800'000'000'000'000;
  Write(1, PartOf(1, 5, "0.000"));  // left by an earlier run
  ASSERT_TRUE(WriteFileAtomically(parts_[1] + ".tmp", "of a worker that died over it").ok());
  TraceParts parts = TraceParts::Begin(file_, 3, 4, parts_).value();
  EXPECT_FALSE(FileExists(parts_[1] + ".tmp"));
  EXPECT_EQ(parts.StepDone(5), "");
  Write(0, PartOf(0, kToday + 10, "0.125"));
  Write(1, PartOf(1, kToday, "0.001"));
  for (const int64_t step : {3, 4}) EXPECT_EQ(parts.StepDone(step), "");
  EXPECT_EQ(parts.StepDone(5),
            absl::StrCat("trace: steps 3-4, ranks 0, 1, in ", file_, "; 1 spans were too many and are left out"));
  EXPECT_EQ(parts.StepDone(6), "");
  nlohmann::json file = File();
  EXPECT_EQ(file["otherData"]["origin_unix_us"], kToday);
  ASSERT_EQ(file["traceEvents"].size(), 4u);
  EXPECT_EQ(file["traceEvents"][1]["ts"], 10.125);
  EXPECT_EQ(file["traceEvents"][3]["ts"], 0.001);
  EXPECT_EQ(file["traceEvents"][3]["name"], "\"ts\":5");
  EXPECT_EQ(parts.StepDone(5), "");
  // A recovery has repeated the steps, and one worker has written its part again.
  Write(1, PartOf(1, kToday + 1000, "0.001"));
  EXPECT_NE(parts.End(), "");
  file = File();
  EXPECT_EQ(file["traceEvents"][1]["ts"], 0.125);
  EXPECT_EQ(file["traceEvents"][3]["ts"], 990.001);
  EXPECT_FALSE(FileExists(parts_[0]));
  EXPECT_THAT(ListDirectory(directory_).value(), testing::ElementsAre("trace.json"));
}

TEST_F(TracePartsTest, SaysWhyThereIsNone) {
  TraceParts stopped = TraceParts::Begin(file_, 3, 4, parts_).value();
  EXPECT_EQ(stopped.StepDone(3), "");
  EXPECT_EQ(stopped.End(), absl::StrCat("trace: this run has not done all of steps 3-4; ", file_, " was not written"));
  EXPECT_TRUE(stopped.status().ok());
  TraceParts full = TraceParts::Begin(file_, 3, 4, parts_).value();
  EXPECT_EQ(full.StepDone(4), "");
  EXPECT_EQ(full.End(), "");
  EXPECT_EQ(full.status(), absl::ResourceExhaustedError(
                               absl::StrCat("--trace: no worker could write its part of steps 3-4; the logs in ",
                                            directory_, " say why; ", file_, " was not written")));
}

TEST_F(TracePartsTest, RefusesWhatCannotBeWritten) {
  EXPECT_EQ(TraceParts::Begin(directory_ + "/none/t.json", 1, 1, {}).status().message(),
            absl::StrCat("--trace: \"", directory_, "/none/t.json\" is in no directory"));
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& other : {directory_, pipe, std::string("/dev/null")}) {
    EXPECT_THAT(std::string(TraceParts::Begin(other, 1, 1, {}).status().message()),
                HasSubstr("is not a regular file, and would be replaced"));
  }
  // The file's path may turn into a directory while the run goes on.
  TraceParts parts = TraceParts::Begin(file_, 1, 1, parts_).value();
  Write(0, PartOf(0, 5, "0.000"));
  ASSERT_TRUE(CreateDirectories(file_).ok());
  EXPECT_EQ(parts.StepDone(1), "");
  EXPECT_EQ(parts.StepDone(2), "");  // it is tried again
  EXPECT_FALSE(FileExists(parts_[0]));
  TraceParts never = TraceParts::Begin(directory_ + "/never", 1, 1, parts_).value();
  Write(0, PartOf(0, 5, "0.000"));
  ASSERT_TRUE(CreateDirectories(directory_ + "/never").ok());
  EXPECT_EQ(never.End(), "");
  EXPECT_EQ(never.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(never.status().message()), HasSubstr("/never was not written: "));
  ASSERT_TRUE(RemoveTree(file_).ok());
  EXPECT_THAT(parts.End(), HasSubstr("trace: steps 1-1, rank 0, in "));
  EXPECT_TRUE(parts.status().ok());
  EXPECT_EQ(File()["traceEvents"].size(), 2u);
}

TEST_F(TracePartsTest, SaysWhichStepsARunThatResumedHasDone) {
  TraceParts parts = TraceParts::Begin(file_, 7, 10, parts_).value();
  Write(0, PartOf(0, 5, "0.000"));
  for (const int64_t step : {9, 10}) EXPECT_EQ(parts.StepDone(step), "");
  EXPECT_THAT(parts.StepDone(11), HasSubstr("trace: steps 9-10 of 7-10, rank 0, in "));
}

TEST_F(TracePartsTest, RefusesWhatIsNoPart) {
  const std::string good = PartOf(0, 5, "0.000");
  std::string no_time = good, no_rank = good;
  no_time.replace(no_time.find("\"ts\":"), 5, "\"at\":");
  no_rank.replace(no_rank.rfind("\"pid\":0"), 7, "\"pid\":a");
  for (const std::string& bad : {std::string("{"), std::string(), good.substr(0, good.size() - 3), "[" + good,
                                 std::string("1,\n\"traceEvents\":[\n]}\n"), no_time, no_rank}) {
    TraceParts parts = TraceParts::Begin(file_, 1, 1, parts_).value();
    Write(0, bad);
    EXPECT_EQ(parts.StepDone(2), "");
    EXPECT_EQ(parts.End(), "");
    EXPECT_EQ(parts.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(parts.status().message()), HasSubstr(absl::StrCat(parts_[0], " is no trace"))) << bad;
    EXPECT_FALSE(FileExists(parts_[0]));
  }
  EXPECT_FALSE(FileExists(file_));
}

}  // namespace
}  // namespace zerofleet::cli
