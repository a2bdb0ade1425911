// A plan's text, JSON and page.
#include "cli/planner/cluster_plan.h"

#include <algorithm>

#include "cli/config/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/families.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Config ModelOn(const std::string& preset, int workers, int stage) {
  v1::Config config = DefaultConfig(preset).value();
  config.mutable_parallel()->set_workers(workers);
  config.mutable_parallel()->set_zero_stage(stage);
  config.mutable_batch()->set_micro_sequences(1);
  return WithMicroBatches(config, 1);
}

Cluster ClusterOf(const std::string& gpus, const std::string& memory) {
  return ParseCluster({.gpus = gpus, .gpu_memory = memory}).value();
}

// 7.5B parameters take 120 GB before splitting.
TEST(ClusterPlan, FitsWhereItsStageSplitsEnough) {
  const Cluster cluster = ClusterOf("64", "80GiB");
  const RankEstimate whole = EstimateRank(ModelOn("zero-8b", 64, 0), cluster).value();
  const RankEstimate split = EstimateRank(ModelOn("zero-8b", 64, 2), cluster).value();
  EXPECT_FALSE(whole.need.fits());
  EXPECT_THAT(whole.need.Verdict(), HasSubstr("too much for the device"));
  EXPECT_TRUE(split.need.fits());
  EXPECT_EQ(split.need.Verdict(), "fits");
  EXPECT_EQ(split.need.device_sum(), split.plan.Bytes(memory::Space::kDevice) + kGpuOutsideBytes);
}

// The shapes that are tried have no layers that the run's patterns name.
TEST(ClusterPlan, SaysThatTheLargestModelIsTrainedInFull) {
  ClusterPlan plan;
  plan.config = ModelOn("gpt2-124m", 4, 3);
  EXPECT_EQ(LargestText(plan), "none with these settings");
  plan.largest = LargestModel{plan.config.model(), 1e9};
  EXPECT_THAT(LargestText(plan), Not(HasSubstr("trained")));
  plan.config.mutable_model()->mutable_lora()->set_rank(8);
  EXPECT_THAT(LargestText(plan), HasSubstr(", all of them trained"));
}

TEST(ClusterPlan, LargestAndSmallestAreAtTheEdge) {
  const v1::Config config = ModelOn("gpt2-1558m", 4, 3);
  const Cluster cluster = ClusterOf("4", "16GiB");
  const std::optional<LargestModel> largest = FindLargestModel(config, cluster).value();
  ASSERT_TRUE(largest);
  v1::Config changed = config;
  *changed.mutable_model() = largest->model;
  EXPECT_TRUE(NeedOf(PlanMemoryOf(changed).value(), cluster).fits());
  changed.mutable_model()->set_layers(largest->model.layers() + 2);
  EXPECT_FALSE(NeedOf(PlanMemoryOf(changed).value(), cluster).fits());

  const std::optional<int64_t> longest = FindLongestContext(config, cluster).value();
  ASSERT_TRUE(longest);
  changed = config;
  changed.mutable_model()->set_context(*longest);
  EXPECT_TRUE(NeedOf(PlanMemoryOf(changed).value(), cluster).fits());
  changed.mutable_model()->set_context(*longest + 64);
  EXPECT_FALSE(NeedOf(PlanMemoryOf(changed).value(), cluster).fits());
  EXPECT_FALSE(FindLongestContext(ModelOn("zero-8b", 4, 0), cluster).value()) << "its states alone are too much";
  EXPECT_EQ(FindLongestContext(ModelOn("gpt2-char", 4, 3), ClusterOf("4", "999TiB")).value(), model::kMostContext);

  const std::optional<int64_t> smallest = FindSmallestCluster(config, cluster).value();
  ASSERT_TRUE(smallest);
  ASSERT_GT(*smallest, 1);
  const auto fits_on = [&](int64_t gpus) {
    return NeedOf(PlanMemoryOf(WithWorkers(config, gpus)).value(), ClusterOf(absl::StrCat(gpus), "16GiB")).fits();
  };
  EXPECT_TRUE(fits_on(*smallest));
  EXPECT_FALSE(fits_on(*smallest - 1));
  EXPECT_FALSE(FindSmallestCluster(ModelOn("zero-8b", 4, 0), cluster).value()) << "stage 0 splits nothing";
}

TEST(ClusterPlan, SaysTheSameInEveryForm) {
  ClusterPlan plan = PlanOnCluster("<b>&\"a'\x01", ModelOn("gpt2-124m", 2, 2), ClusterOf("2", "16GiB")).value();
  const std::string page = ClusterPlanPage(plan);
  std::string text = ClusterPlanText(plan, {});
  std::replace(text.begin(), text.end(), '\n', ' ');  // undo the wrapping
  const nlohmann::ordered_json json = ClusterPlanJson(plan);
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["device_peak_bytes"], plan.rank.need.device_sum());
  int64_t sum = json["outside_the_plan_bytes"];
  for (const auto& [category, bytes] : json["memory"]["device"].items()) sum += bytes.get<int64_t>();
  EXPECT_EQ(sum, plan.rank.need.device_sum());
  double seconds = 0;
  for (const auto& [part, each] : json["step"]["parts"].items()) seconds += each.get<double>();
  EXPECT_DOUBLE_EQ(seconds, plan.rank.time.seconds());
  for (const std::string& form : {text, page}) {
    EXPECT_THAT(form, HasSubstr("2 bytes per parameter"));
    EXPECT_THAT(form, HasSubstr(plan.pick->first.Name()));
    EXPECT_THAT(form, HasSubstr(plan.pick->second->Name()));
  }
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&amp;&quot;a&#39;?"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST(ClusterPlan, ThePageListsTheFastestAndNothingEmpty) {
  const ClusterPlan plan = PlanOnCluster("gpt2-124m", ModelOn("gpt2-124m", 2, 2), ClusterOf("2", "16GiB")).value();
  const std::string page = ClusterPlanPage(plan);
  const std::vector<Choice>& fastest = plan.pick->fastest;
  ASSERT_EQ(fastest.size(), kMostListed);
  ASSERT_GT(plan.pick->fitting, static_cast<int64_t>(kMostListed));
  for (size_t i = 0; i < fastest.size(); ++i) {
    EXPECT_THAT(page, HasSubstr("<tr><td>" + fastest[i].Name() + "</td>"));
    EXPECT_LE(fastest[i].estimate.tokens_per_second, fastest[0].estimate.tokens_per_second);
    EXPECT_GE(fastest[i].estimate.tokens_per_second, fastest.back().estimate.tokens_per_second);
  }
  EXPECT_THAT(page, Not(HasSubstr(">0 B<")));
  EXPECT_THAT(page, Not(HasSubstr("width=\"0.0\"")));
  EXPECT_THAT(page, Not(HasSubstr(">0.00 ms</text>")));
  ASSERT_GT(plan.rank.plan.SharedBytes(memory::Space::kDevice), 0);
  EXPECT_THAT(page, HasSubstr("<p>shared: "));
}

TEST(ClusterPlan, FitsSixtyColumns) {
  const ClusterPlan plan = PlanOnCluster("gpt2-124m", ModelOn("gpt2-124m", 2, 2), ClusterOf("2", "16GiB")).value();
  const std::string text = ClusterPlanText(plan, Terminal::OfSize(60, 24, false, false));
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 60) << text.substr(begin, end - begin);
  }
}

TEST(ClusterPlan, AMeasuredStepSaysHowMuchTheMachineVaries) {
  ClusterPlan plan;
  plan.probe = Probe{.seconds = 0.2, .slowest_seconds = 0.208, .points = {{2, 1, 1, 0.2}}};
  EXPECT_THAT(PredictedFrom(plan), Not(HasSubstr("slowest")));
  plan.probe->slowest_seconds = 0.25;
  EXPECT_THAT(PredictedFrom(plan), HasSubstr("the slowest of their rounds says 25% more"));
}

}  // namespace
}  // namespace zerofleet::cli
