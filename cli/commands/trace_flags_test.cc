// Which steps are traced, and the file name of each of several workers.
#include "cli/commands/trace_flags.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(TraceFlags, EachWorkerHasAFileOfItsOwn) {
  EXPECT_EQ(TraceOfWorker("a.b/rank.json", 2), "a.b/rank-2.json");
  EXPECT_EQ(TraceOfWorker("rank", 0), "rank-0");
}

TEST(TraceFlags, NothingIsTracedWithoutThem) {
  EXPECT_FALSE(TracedStepsOf("", "").value().has_value());
  EXPECT_EQ(TracedStepsOf("t.json", "3-4").value()->last, 4);
  EXPECT_EQ(TracedStepsOf("t.json", "").status().message(),
            "--trace-steps: must be FIRST-LAST, such as 10-12, the first step being 1, got \"\"");
  EXPECT_EQ(TracedStepsOf("t.json", "1-1001").status().message(),
            "--trace-steps: must be at most 1000 steps, got 1001");
}

}  // namespace
}  // namespace zerofleet::cli
