// Parts of two ranks become one file on one axis; parts of an earlier run do not.
#include "cli/report/trace_parts.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

std::string PartOf(int rank, int64_t origin, double began) {
  return absl::StrCat(R"({"otherData":{"dropped":)", rank, R"(,"origin_unix_us":)", origin, R"(},"traceEvents":[)",
                      R"({"ph":"M","pid":)", rank, R"(,"tid":0,"name":"process_name","args":{"name":"rank"}},)",
                      R"({"ph":"X","pid":)", rank, R"(,"tid":7,"ts":)", began, R"(,"dur":2,"name":"forward"}]})");
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
  nlohmann::ordered_json File() const { return nlohmann::ordered_json::parse(ReadSmallFile(file_, 1 << 20).value()); }

  std::string directory_, file_;
  std::vector<std::string> parts_;
};

TEST_F(TracePartsTest, JoinsWhatThereIs) {
  constexpr int64_t kToday = 1'800'000'000'000'000;
  ASSERT_TRUE(WriteFileAtomically(parts_[1], PartOf(1, 5, 0)).ok());  // of an earlier run
  TraceParts parts = TraceParts::Begin(file_, 3, 4, parts_).value();
  EXPECT_EQ(parts.Join(false), "");
  EXPECT_EQ(parts.Join(true),
            absl::StrCat("trace: this run has not done all of steps 3-4; ", file_, " was not written"));
  ASSERT_TRUE(WriteFileAtomically(parts_[0], PartOf(0, kToday + 10, 0.125)).ok());
  ASSERT_TRUE(WriteFileAtomically(parts_[1], PartOf(1, kToday, 0.001)).ok());
  EXPECT_EQ(parts.Join(false),
            absl::StrCat("trace: steps 3-4, ranks 0, 1, in ", file_, "; 1 spans were too many and are left out"));
  nlohmann::ordered_json file = File();
  ASSERT_EQ(file["traceEvents"].size(), 4u);
  EXPECT_EQ(file["traceEvents"][1]["ts"], 10.125);
  EXPECT_EQ(file["traceEvents"][3]["ts"], 0.001);
  EXPECT_EQ(parts.Join(true), "");
  // A recovery has done the steps again on one of them.
  ASSERT_TRUE(WriteFileAtomically(parts_[1], PartOf(1, kToday + 1000, 0.001)).ok());
  EXPECT_NE(parts.Join(true), "");
  file = File();
  EXPECT_EQ(file["traceEvents"][1]["ts"], 0.125);
  EXPECT_EQ(file["traceEvents"][3]["ts"], 990.001);
}

TEST_F(TracePartsTest, RefusesWhatCannotBeWritten) {
  EXPECT_EQ(TraceParts::Begin(directory_ + "/none/t.json", 1, 1, {}).status().message(),
            absl::StrCat("--trace: ", directory_, "/none: no such directory"));
  EXPECT_EQ(TraceParts::Begin(directory_, 1, 1, {}).status().message(),
            absl::StrCat("--trace: ", directory_, " is a directory; name a file"));
  TraceParts parts = TraceParts::Begin(file_, 1, 1, parts_).value();
  ASSERT_TRUE(WriteFileAtomically(parts_[0], "{").ok());
  EXPECT_EQ(parts.Join(false), absl::StrCat("--trace: ", parts_[0], " is no trace"));
}

}  // namespace
}  // namespace zerofleet::cli
