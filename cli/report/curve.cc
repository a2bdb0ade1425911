// See curve.h.
#include "cli/report/curve.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/report/html.h"

namespace zerofleet::cli {
namespace {

constexpr int kChartWidth = 520, kChartHeight = 240, kChartLeft = 58, kChartRight = 12, kChartTop = 8,
              kChartBottom = 26, kChartPoints = 400, kChartColours = 6;

std::vector<CurvePoint> Finite(const std::vector<CurvePoint>& points) {
  std::vector<CurvePoint> finite;
  std::copy_if(points.begin(), points.end(), std::back_inserter(finite),
               [](const CurvePoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); });
  return finite;
}

// The range of all points' x or y, widened if it is a single value.
struct Extent {
  double low, high;

  static Extent Of(const std::vector<ChartLine>& lines, double CurvePoint::*side) {
    Extent extent = {HUGE_VAL, -HUGE_VAL};
    for (const ChartLine& line : lines) {
      for (const CurvePoint& point : line.points) {
        extent.low = std::min(extent.low, point.*side);
        extent.high = std::max(extent.high, point.*side);
      }
    }
    if (extent.low < extent.high) return extent;
    const double room = extent.low == 0 ? 1 : std::abs(extent.low) * 0.1;
    return {extent.low - room, extent.high + room};
  }
  double Part(double value) const { return (value - low) / (high - low); }
};

double XOf(const Extent& extent, double x) {
  return kChartLeft + extent.Part(x) * (kChartWidth - kChartLeft - kChartRight);
}
double YOf(const Extent& extent, double y) {
  return kChartTop + (1 - extent.Part(y)) * (kChartHeight - kChartTop - kChartBottom);
}

std::string Axes(const Extent& x, const Extent& y) {
  std::string svg;
  for (const double tick : AxisTicks(y.low, y.high)) {
    const double at = YOf(y, tick);
    absl::StrAppendFormat(&svg, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", kChartLeft,
                          kChartWidth - kChartRight, at, at);
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>", kChartLeft - 6, at + 4,
                          tick);
  }
  for (const double tick : AxisTicks(x.low, x.high)) {
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>", XOf(x, tick),
                          kChartHeight - 8, tick);
  }
  return svg;
}

std::string Polyline(const ChartLine& line, const Extent& x, const Extent& y) {
  std::string places;
  for (const CurvePoint& point : line.points) {
    absl::StrAppendFormat(&places, "%.1f,%.1f ", XOf(x, point.x), YOf(y, point.y));
  }
  const std::string colour = absl::StrCat("c", line.colour % kChartColours);
  if (line.points.size() == 1) {
    return absl::StrFormat("<circle class=\"%s dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", colour,
                           XOf(x, line.points[0].x), YOf(y, line.points[0].y));
  }
  return absl::StrCat("<polyline class=\"", colour, line.dashed ? " dashed" : "", "\" points=\"", places, "\"/>");
}

}  // namespace

const char kLineChartStyle[] =
    "svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#57606a}.grid{stroke:#d0d7de;stroke-width:.5}"
    "polyline{fill:none;stroke-width:1.5}.dashed{stroke-dasharray:5 3}.dot{stroke:none;fill:currentColor}"
    ".c0{stroke:#3f51b5;color:#3f51b5}.c1{stroke:#c2571a;color:#c2571a}.c2{stroke:#1b7f4d;color:#1b7f4d}"
    ".c3{stroke:#a3286d;color:#a3286d}.c4{stroke:#7a6a00;color:#7a6a00}.c5{stroke:#00798c;color:#00798c}"
    "figure{margin:0}figcaption span{margin-right:1rem;white-space:nowrap}i.k{display:inline-block;width:1.2rem;"
    "border-top:2px solid;margin:0 .35rem .25rem 0}i.dashed{border-top-style:dashed}"
    "@media(prefers-color-scheme:dark){text{fill:#9aa4b0}.grid{stroke:#333a44}"
    ".c0{stroke:#8c9eff;color:#8c9eff}.c1{stroke:#ff9e66;color:#ff9e66}.c2{stroke:#5fd38d;color:#5fd38d}"
    ".c3{stroke:#f48fc5;color:#f48fc5}.c4{stroke:#e0cf4e;color:#e0cf4e}.c5{stroke:#5cd0e0;color:#5cd0e0}}";

std::vector<CurvePoint> Thinned(const std::vector<CurvePoint>& points, int most) {
  const std::vector<CurvePoint> finite = Finite(points);
  if (finite.size() <= 2 * static_cast<size_t>(most)) return finite;
  std::vector<CurvePoint> thinned;
  for (int stretch = 0; stretch < most; ++stretch) {
    const auto begin = finite.begin() + static_cast<int64_t>(finite.size()) * stretch / most,
               end = finite.begin() + static_cast<int64_t>(finite.size()) * (stretch + 1) / most;
    const auto [low, high] =
        std::minmax_element(begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
    thinned.push_back(*std::min(low, high));
    thinned.push_back(*std::max(low, high));
  }
  return thinned;
}

std::string Sparkline(const std::vector<CurvePoint>& points, int columns) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::vector<CurvePoint> finite = Finite(points);
  const auto count = static_cast<int64_t>(finite.size());
  const int64_t wide = std::min<int64_t>(columns, count);
  std::vector<double> means;
  for (int64_t column = 0; column < wide; ++column) {
    const int64_t begin = count * column / wide, end = count * (column + 1) / wide;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += finite[static_cast<size_t>(i)].y;
    means.push_back(sum / static_cast<double>(end - begin));
  }
  if (means.empty()) return "";
  const double low = *std::min_element(means.begin(), means.end()),
               high = *std::max_element(means.begin(), means.end());
  std::string line;
  for (const double mean : means) {
    const double part = high > low ? (mean - low) / (high - low) : 0.5;
    line += kBlocks[std::min(7, static_cast<int>(part * 8))];
  }
  return line;
}

std::vector<double> AxisTicks(double low, double high) {
  constexpr double kParts = 4;
  const double rough = (high - low) / kParts;
  if (!(rough > 0) || !std::isfinite(rough)) return {};
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * magnitude;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * magnitude >= rough) {
      step = factor * magnitude;
      break;
    }
  }
  std::vector<double> ticks;
  for (double n = std::ceil(low / step); n * step <= high && ticks.size() < 12; ++n) ticks.push_back(n * step);
  return ticks;
}

std::string LineChart(const std::string& title, const std::vector<ChartLine>& lines) {
  std::vector<ChartLine> drawn;
  for (ChartLine line : lines) {
    line.points = Thinned(line.points, kChartPoints);
    if (!line.points.empty()) drawn.push_back(std::move(line));
  }
  if (drawn.empty()) return "";
  const Extent x = Extent::Of(drawn, &CurvePoint::x), y = Extent::Of(drawn, &CurvePoint::y);
  std::string html = absl::StrFormat("<figure><h2>%s</h2><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">",
                                     EscapedHtml(title), kChartWidth, kChartHeight, EscapedHtml(title));
  html += Axes(x, y);
  std::string caption;
  for (const ChartLine& line : drawn) {
    html += Polyline(line, x, y);
    absl::StrAppend(&caption, "<span><i class=\"k c", line.colour % kChartColours, line.dashed ? " dashed" : "",
                    "\"></i>", EscapedHtml(line.name), absl::StrFormat(" %.5g", line.points.back().y), "</span>");
  }
  return absl::StrCat(html, "</svg><figcaption>", caption, "</figcaption></figure>\n");
}

}  // namespace zerofleet::cli
