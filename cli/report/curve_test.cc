// Curves of many and of few points.
#include "cli/report/curve.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Curve, ThinningKeepsASpike) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 10000; ++i) points.push_back({static_cast<double>(i), i == 7777 ? 9.0 : 1.0});
  const std::vector<CurvePoint> thinned = Thinned(points, 50);
  EXPECT_LE(thinned.size(), 100u);
  EXPECT_TRUE(std::any_of(thinned.begin(), thinned.end(), [](const CurvePoint& p) { return p.y == 9; }));
  EXPECT_TRUE(std::is_sorted(thinned.begin(), thinned.end(),
                             [](const CurvePoint& a, const CurvePoint& b) { return a.x < b.x; }));
}

TEST(Curve, SparklinesGoFromTheLeastToTheLargest) {
  EXPECT_EQ(Sparkline({{1, 0}, {2, 7}, {3, NAN}, {4, 3.5}}, 10), "▁█▅");
  EXPECT_EQ(Sparkline({{1, 0}, {2, 0}, {3, 8}, {4, 8}}, 2), "▁█");
  EXPECT_EQ(Sparkline({{1, 2}}, 10), "▅");
  EXPECT_EQ(Sparkline({}, 10), "");
}

TEST(Curve, TicksAreRound) {
  EXPECT_THAT(AxisTicks(0, 10), ElementsAre(0, 5, 10));
  EXPECT_THAT(AxisTicks(1.9, 4.1), ElementsAre(2, 3, 4));
  EXPECT_THAT(AxisTicks(1, 1), ElementsAre());
}

TEST(Curve, AChartNamesItsLinesHarmlessly) {
  const std::string svg = LineChart("loss", {{"<a>", 0, false, {{1, 5}, {2, 4}}}, {"none", 1, false, {{1, NAN}}}});
  EXPECT_THAT(svg, HasSubstr("&lt;a&gt; 4<"));
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"c0\""));
  EXPECT_THAT(svg, Not(HasSubstr("none")));
  EXPECT_EQ(LineChart("loss", {}), "");
}

}  // namespace
}  // namespace zerofleet::cli
