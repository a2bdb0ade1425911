// What the status page contains, and what it must not; see status_page.h.
#include "services/metrics/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace zerofleet::services {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

StatusPicture Training() {
  StatusPicture picture;
  picture.run = "tiny";
  picture.now_unix_seconds = 1'800'000'000;
  picture.last_commit_unix_seconds = picture.now_unix_seconds - 75;
  picture.goodput = 0.875;
  v1::GetStatusResponse& status = picture.status;
  status.set_phase("training");
  status.set_generation(3);
  status.set_world_size(2);
  status.set_step(47);
  status.set_steps(500);
  status.set_loss(2.34567);
  status.set_tokens_per_second(12'345);
  status.set_mfu(0.5);
  status.set_last_checkpoint_step(40);
  status.set_version("0.1.0");
  for (int rank = 0; rank < 2; ++rank) {
    v1::MemberStatus* member = status.add_members();
    member->set_rank(rank);
    member->set_host(absl::StrCat("node-", rank));
    member->set_state("training");
    member->set_step(47);
  }
  v1::GroupProgress* progress = status.mutable_members(1)->add_progress();
  progress->set_group("data");
  progress->set_sequence(312);
  progress->set_completed(311);
  progress->set_operation("reduce_scatter");
  progress->set_unit("layer.1");
  for (int step = 1; step <= 47; ++step) picture.losses.push_back({step, 4 - 0.04 * step, 12'345});
  return picture;
}

TEST(StatusPage, ShowsTheRun) {
  const std::string html = StatusPageHtml(Training());
  for (const char* part :
       {"<title>tiny: training, step 47</title>", "<dd>47 of 500</div>", "<dd>2.3457</div>", "<dd>12.3K tokens/s</div>",
        "<dd>50.0%</div>", "<dd>87.5%</div>", "<dd>step 40, 1m15s ago</div>", "<td>node-0<td>",
        "<td>data in 312, reduce_scatter layer.1\n", "<progress max=\"500\" value=\"47\">",
        "loss 3.9600 at step 1, 2.1200 at step 47; lowest 2.1200, highest 3.9600", "2027-01-15 08:00:00 UTC"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, HasSubstr("<polyline points=\"52.0,10.0 "));
  EXPECT_THAT(html, HasSubstr("628.0,208.0 \"/>"));
  EXPECT_THAT(html, Not(HasSubstr("Waiting for")));
}

TEST(StatusPage, TheCurveHasAxesWithNumbers) {
  const std::string html = StatusPageHtml(Training());
  for (const char* part : {"y=\"117.3\">3.0</text>", "y=\"63.5\">3.5</text>", ">2.5</text>", ">10</text>", ">40</text>",
                           ">step</text>", "<h2>Training loss</h2>"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(StatusPage, ACurveThatIsFlatHasAxesToo) {
  StatusPicture picture = Training();
  picture.losses = {{1, 2.5, 1}, {2, 2.5, 1}};
  EXPECT_THAT(StatusPageHtml(picture), AllOf(HasSubstr(">2.500</text>"), HasSubstr(">1</text>"),
                                             HasSubstr("points=\"52.0,208.0 628.0,208.0 \""), Not(HasSubstr("nan"))));
}

TEST(StatusPage, LoadsItselfAgainWithoutScripts) {
  EXPECT_THAT(StatusPageHtml(Training()),
              HasSubstr("<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>"));
}

TEST(StatusPage, EscapesWhatOthersHaveSaid) {
  StatusPicture picture = Training();
  const std::string bad = "<script>alert('\"&\"')</script>";
  picture.run = bad;
  picture.status.set_message(bad);
  picture.status.set_save_failure(bad);
  picture.status.set_rollback(bad);
  v1::MemberStatus& member = *picture.status.mutable_members(0);
  member.set_host(bad);
  member.set_device(bad);
  member.set_state(bad);
  v1::GroupProgress* progress = member.add_progress();
  progress->set_group(bad);
  progress->set_sequence(1);
  progress->set_operation(bad);
  progress->set_unit(bad);
  v1::Flight& flight = *picture.status.mutable_flight();
  flight.set_cause(bad);
  v1::FlightEntry* entry = flight.add_ranks()->add_entries();
  entry->set_group(bad);
  entry->set_unit(bad);
  v1::RankPartition* rank = picture.status.mutable_partition()->add_ranks();
  rank->add_states()->set_name(bad);
  const std::string html = StatusPageHtml(picture);
  EXPECT_THAT(html, Not(HasSubstr("alert('")));
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&#39;&quot;&amp;&quot;&#39;)&lt;/script&gt;"));
}

TEST(StatusPage, ShowsWhatIsMissing) {
  StatusPicture picture;
  picture.run = "tiny";
  picture.status.set_phase("forming");
  picture.status.set_world_size(4);
  picture.status.set_last_checkpoint_step(-1);
  picture.losses = {{1, std::nan(""), 0}};
  EXPECT_THAT(StatusPageHtml(picture), AllOf(HasSubstr("Waiting for 4 more."), HasSubstr("<dd>none yet</div>"),
                                             HasSubstr("No steps yet"), Not(HasSubstr("nan"))));
}

TEST(StatusPage, ShowsWhoOwnsWhatAndWhereTheLastViewStood) {
  StatusPicture picture = Training();
  v1::PartitionStatus& partition = *picture.status.mutable_partition();
  v1::RankPartition* rank = partition.add_ranks();
  for (int i = 0; i < 2; ++i) {
    v1::FlatRange* range = rank->add_owned();
    range->set_flat_begin(100 * i);
    range->set_flat_end(100 * i + 30);
  }
  v1::StateBytes* state = rank->add_states();
  state->set_name("exp_avg");
  state->set_bytes(2048);
  v1::FlightRecord* record = picture.status.mutable_flight()->add_ranks();
  picture.status.mutable_flight()->set_cause("rank 1 is gone");
  record->add_entries()->set_unit("layer.7");
  record->add_entries()->set_unit("layer.8");
  const std::string html = StatusPageHtml(picture);
  EXPECT_THAT(html, HasSubstr("<th scope=\"col\">exp_avg"));
  EXPECT_THAT(html, HasSubstr("<td>0<td>60<td>2.0 KiB\n"));
  EXPECT_THAT(html, HasSubstr("rank 1 is gone"));
  EXPECT_THAT(html, HasSubstr("<td>layer.8<td>not finished\n"));
  EXPECT_THAT(html, Not(HasSubstr("layer.7")));
  EXPECT_THAT(html, HasSubstr("<h2>Last interruption</h2>"));  // the fleet's: the loss above is the model's
  record->set_rank(-1);
  EXPECT_THAT(StatusPageHtml(picture), Not(HasSubstr("<td>-1")));
}

TEST(StatusPage, OfALargeFleetIsNoLarger) {
  StatusPicture picture = Training();
  for (int rank = 2; rank < 5000; ++rank) *picture.status.add_members() = picture.status.members(0);
  const std::string html = StatusPageHtml(picture);
  EXPECT_THAT(html, HasSubstr("<p>and 4744 more</p>"));
  EXPECT_LT(html.size(), 64 << 10);
}

TEST(LossCurve, KeepsAnEvenShareOfALongRun) {
  LossCurve curve;
  for (int64_t step = 1; step <= 100'000; ++step) curve.Add({step, 1.0 / static_cast<double>(step), 0});
  const std::vector<CurvePoint> points = curve.points();
  EXPECT_LE(points.size(), LossCurve::kMostPoints + 1);
  EXPECT_GE(points.size(), LossCurve::kMostPoints / 3);
  EXPECT_EQ(points.front().step, 1);
  EXPECT_EQ(points.back().step, 100'000);
  for (size_t i = 1; i < points.size(); ++i) {
    EXPECT_LT(points[i - 1].step, points[i].step);
    EXPECT_LE(points[i].step - points[i - 1].step, 512);
  }
}

TEST(LossCurve, GoesBackWithTheRun) {
  LossCurve curve;
  for (int64_t step = 1; step <= 20; ++step) curve.Add({step, 3, 0});
  curve.Add({20, 3, 0});  // reported twice
  curve.Add({11, 2, 0});  // after a recovery from step 10
  const std::vector<CurvePoint> points = curve.points();
  ASSERT_EQ(points.size(), 11);
  EXPECT_EQ(points[9].step, 10);
  EXPECT_EQ(points[10].step, 11);
  EXPECT_EQ(points[10].loss, 2);
}

}  // namespace
}  // namespace zerofleet::services
