// A figure over the steps of a run: as a line of characters, or as a chart of a page.
#ifndef ZEROFLEET_CLI_REPORT_CURVE_H_
#define ZEROFLEET_CLI_REPORT_CURVE_H_

#include <string>
#include <vector>

namespace zerofleet::cli {

struct CurvePoint {
  double x, y;
};

// At most 2 * `most` of the points: the lowest and the highest of each of `most` equal stretches, so that no spike is
// lost. Points that are not finite are left out.
std::vector<CurvePoint> Thinned(const std::vector<CurvePoint>& points, int most);

// The points as `columns` block characters. Each character's height is the mean of a stretch, scaled between the
// smallest and the largest of these means. Empty without a finite point.
std::string Sparkline(const std::vector<CurvePoint>& points, int columns);

// Round values that divide [low, high] into about four parts.
std::vector<double> AxisTicks(double low, double high);

struct ChartLine {
  std::string name;
  int colour;  // index (0-based) of one of the page's colours
  bool dashed;
  std::vector<CurvePoint> points;
};

// An SVG with axes, lines and their names; empty if no line has a finite point.
std::string LineChart(const std::string& title, const std::vector<ChartLine>& lines);
// The CSS that a page with such charts needs.
extern const char kLineChartStyle[];

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_CURVE_H_
