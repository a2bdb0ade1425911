// Numbers that read back exactly, and names that need quotes.
#include "cli/report/csv.h"

#include <limits>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(Csv, HasALineForEachStepAndEvaluation) {
  RunFile run;
  run.name = "a \"b\",c.jsonl";
  run.steps[3] = {.loss = 0.1,
                  .grad_norm = std::numeric_limits<double>::quiet_NaN(),
                  .learning_rate = 3e-4,
                  .tokens_per_second = 50,
                  .mfu = 0.5,
                  .seconds = 2,
                  .tokens = 100,
                  .unix_seconds = 7};
  run.evaluations.push_back({.step = 3, .set = "wiki", .loss = 4.25, .unix_seconds = 8});
  EXPECT_EQ(RunsCsv({&run, 1}),
            "run,kind,step,set,loss,grad_norm,learning_rate,tokens,seconds,tokens_per_second,mfu,unix_seconds\r\n"
            "\"a \"\"b\"\",c.jsonl\",step,3,,0.10000000000000001,,0.00029999999999999997,100,2,50,0.5,7\r\n"
            "\"a \"\"b\"\",c.jsonl\",evaluation,3,wiki,4.25,,,,,,,8\r\n");
}

}  // namespace
}  // namespace zerofleet::cli
