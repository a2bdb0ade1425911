// Runs side by side: figures, differences, the page.
#include "cli/report/run_text.h"

#include "absl/strings/str_cat.h"
#include "cli/report/run_compare.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunFile RunOf(const std::string& name, double rate, double last_loss) {
  return ParseRunFile(
             name,
             absl::StrCat(
                 R"({"event":"start","world_size":2,"device":"cpu","version":"1","config":{"optimizer":{"rate":)", rate,
                 R"(},"seed":1}})", "\n", R"({"event":"step","step":1,"loss":5,"tokens":10,"seconds":1})", "\n",
                 R"({"event":"step","step":2,"loss":)", last_loss, R"(,"tokens":10,"seconds":2})", "\n",
                 R"({"event":"evaluate","step":1,"loss":4.5})", "\n", R"({"event":"evaluate","step":2,"loss":4.75})",
                 "\n",
                 R"({"event":"end","ranks":[{"rss_peak_bytes":1048576,"memory":{"device":{"gradients":{"peak":2048}}},)"
                 R"("collectives":[{"operation":"reduce_scatter","calls":3,"bytes":2e9,"seconds":1}]}]})",
                 "\n"))
      .value();
}

TEST(RunText, TellsTheBestValidationLossAndTheSpeed) {
  const std::string text = RunsText({RunOf("a", 0.1, 4)}, false, {});
  EXPECT_THAT(text, HasSubstr("4.75 at step 2 (best 4.5 at step 1)"));
  EXPECT_THAT(text, HasSubstr("5 to 4\n"));
  EXPECT_THAT(text, HasSubstr("5 tokens/s"));
  EXPECT_THAT(text, HasSubstr("2 workers on cpu"));
  RunFile alone = RunOf("b", 0.1, 4);
  alone.start["world_size"] = 1;
  EXPECT_THAT(RunsText({alone}, false, {}), HasSubstr("1 worker on cpu"));
}

TEST(RunText, AnEvaluationWithoutANumberIsNeverTheBest) {
  const auto evaluation = [](int step, const char* loss) {
    return absl::StrCat(R"({"event":"evaluate","step":)", step, R"(,"loss":)", loss, "}\n");
  };
  const std::string step = "{\"event\":\"step\",\"step\":9,\"loss\":5}\n";
  const auto text = [&](const std::string& lines) {
    return RunsText({ParseRunFile("a", absl::StrCat(step, lines)).value()}, false, {});
  };
  EXPECT_THAT(text(evaluation(2, "null") + evaluation(4, "3") + evaluation(6, "3.5")),
              HasSubstr("3.5 at step 6 (best 3 at step 4)"));
  EXPECT_THAT(text(evaluation(2, "3") + evaluation(4, "null")), HasSubstr("- at step 4 (best 3 at step 2)"));
  EXPECT_THAT(text(evaluation(2, "null")), HasSubstr("- at step 2\n"));
}

TEST(RunText, DifferencesAreKeysAndTheFirstStep) {
  const std::vector<RunFile> runs = {RunOf("a", 0.1, 4), RunOf("b", 0.2, 3), RunOf("c", 0.1, 4)};
  const std::vector<DifferingKey> keys = DifferingKeys(runs);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].key, "optimizer.rate");
  EXPECT_THAT(keys[0].values, ElementsAre("0.1", "0.2", "0.1"));
  EXPECT_EQ(FirstDifferingStep(runs[0], runs[1])->step, 2);
  EXPECT_FALSE(FirstDifferingStep(runs[0], runs[2]).has_value());
  const std::string text = RunsText(runs, true, {});
  EXPECT_THAT(text, HasSubstr("b: differs from a from step 2 on: loss 3, there 4"));
  EXPECT_THAT(text, HasSubstr("c: same bits as a in all 2 steps that both have"));
}

TEST(RunText, APageHasCurvesMemoryAndCollectivesAndNoScript) {
  const std::string page = RunsPage({RunOf("<a>", 0.1, 4), RunOf("b", 0.2, 3)});
  EXPECT_THAT(page, HasSubstr("&lt;a&gt; training 4<"));
  EXPECT_THAT(page, HasSubstr("gradients"));
  EXPECT_THAT(page, HasSubstr("reduce_scatter"));
  EXPECT_THAT(page, HasSubstr("optimizer.rate"));
  EXPECT_THAT(page, Not(HasSubstr("<a>")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("http")));
}

}  // namespace
}  // namespace zerofleet::cli
