// A figure over the steps of a run: as a line of characters, or as a chart of a page.
#ifndef ZEROFLEET_CLI_REPORT_CURVE_H_
#define ZEROFLEET_CLI_REPORT_CURVE_H_

#include <string>
#include <vector>

namespace zerofleet::cli {

struct CurvePoint {
  double x, y;
};

// At most 2 * `most` points: of each of `most` stretches the lowest and the highest, so that no spike is lost. What is
// not finite is left out.
std::vector<CurvePoint> Thinned(const std::vector<CurvePoint>& points, int most);

// The points as `columns` block characters, each the mean of a stretch, between the least and the largest of all. Empty
// without a point.
std::string Sparkline(const std::vector<CurvePoint>& points, int columns);

// Round values that divide [low, high] in some four parts.
std::vector<double> AxisTicks(double low, double high);

struct ChartLine {
  std::string name;
  int colour;  // of the page's, from 0; lines of one run have one
  bool dashed;
  std::vector<CurvePoint> points;
};

// An SVG with axes, lines and their names; empty if no line has a finite point.
std::string LineChart(const std::string& title, const std::vector<ChartLine>& lines);
// The style that its page needs.
extern const char kLineChartStyle[];

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_CURVE_H_
