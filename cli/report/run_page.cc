// Runs as one HTML page: SVG and tables, no script, nothing fetched; see run_text.h.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/report/curve.h"
#include "cli/report/html.h"
#include "cli/report/run_compare.h"
#include "cli/report/run_text.h"

namespace zerofleet::cli {
namespace {

using Json = nlohmann::json;

constexpr char kRunsStyle[] =
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem 2rem}"
    "h2{font-size:1.1rem;margin:1.2rem 0 .3rem}.steps{fill:#1b7f4d}.recovery{fill:#c62828}.rollback{fill:#c2571a}"
    ".saved{stroke:#3f51b5;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){.steps{fill:#2f8f5f}.recovery{fill:#ef6c6c}.saved{stroke:#8c9eff}}";
constexpr int kMostTableRows = 64, kLineWidth = 1000, kLineHeight = 22;

std::vector<CurvePoint> StepPoints(const RunFile& run, double ReportedStep::*value) {
  std::vector<CurvePoint> points;
  for (const auto& [number, step] : run.steps) points.push_back({static_cast<double>(number), step.*value});
  return points;
}

// The training loss and, as dashed lines, the loss of each validation set.
std::string LossChart(const std::vector<RunFile>& runs) {
  std::vector<ChartLine> lines;
  for (size_t i = 0; i < runs.size(); ++i) {
    const int colour = static_cast<int>(i);
    const std::string prefix = runs.size() > 1 ? runs[i].name + " " : "";
    lines.push_back({prefix + "training", colour, false, StepPoints(runs[i], &ReportedStep::loss)});
    std::map<std::string, std::vector<CurvePoint>> sets;
    for (const ReportedEvaluation& one : runs[i].evaluations) {
      sets[one.set].push_back({static_cast<double>(one.step), one.loss});
    }
    int more = runs.size() > 1 ? 0 : 1;
    for (const auto& [set, points] : sets) {
      lines.push_back({absl::StrCat(prefix, "validation", set.empty() ? "" : " ", set), colour + more, true, points});
      more += runs.size() > 1 ? 0 : 1;
    }
  }
  return LineChart("loss", lines);
}

std::string Charts(const std::vector<RunFile>& runs) {
  std::string html = absl::StrCat("<div class=\"charts\">", LossChart(runs));
  for (const RunSeries& series : AllRunSeries()) {
    if (series.value == &ReportedStep::loss) continue;
    std::vector<ChartLine> lines;
    for (size_t i = 0; i < runs.size(); ++i) {
      lines.push_back({runs.size() > 1 ? runs[i].name : series.name, static_cast<int>(i), false,
                       StepPoints(runs[i], series.value)});
    }
    html += LineChart(series.name, lines);
  }
  return html + "</div>\n";
}

const char* PauseName(ReportedPause::Kind kind) {
  switch (kind) {
    case ReportedPause::Kind::kRecovery: return "recovery";
    case ReportedPause::Kind::kRollback: return "rollback";
    case ReportedPause::Kind::kCheckpoint: return "checkpoint";
  }
  return "";
}

// The run from left to right: recoveries and rollbacks as blocks that end at the time of their report line, checkpoints
// as lines.
std::string TimeLine(const RunFile& run) {
  if (!(run.wall_seconds > 0)) return "";
  std::string svg = absl::StrFormat(
      "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"time line\"><rect class=\"steps\" x=\"0\" y=\"4\" "
      "width=\"%d\" height=\"%d\"/>",
      kLineWidth, kLineHeight, kLineWidth, kLineHeight - 8);
  const double scale = kLineWidth / run.wall_seconds;
  std::vector<std::vector<std::string>> rows;
  for (const ReportedPause& pause : run.pauses) {
    const std::string name = PauseName(pause.kind);
    const double seconds = pause.seconds > 0 ? pause.seconds : 0;
    if (pause.kind == ReportedPause::Kind::kCheckpoint) {
      absl::StrAppendFormat(&svg, "<line class=\"saved\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\"/>",
                            pause.at * scale, pause.at * scale, kLineHeight);
      continue;
    }
    const double width = std::max(2.0, seconds * scale);
    absl::StrAppendFormat(&svg, "<rect class=\"%s\" x=\"%.1f\" y=\"2\" width=\"%.1f\" height=\"%d\"/>", name,
                          std::max(0.0, pause.at * scale - width), width, kLineHeight - 4);
    if (rows.size() < kMostTableRows) {
      rows.push_back({absl::StrFormat("%.1f s", pause.at), name, absl::StrFormat("%.2f s", seconds),
                      absl::StrCat(pause.step), absl::StrCat(pause.lost_steps), pause.cause});
    }
  }
  std::string html = absl::StrCat("<h2>Time line: ", HumanSeconds(run.wall_seconds), "</h2>", svg, "</svg>\n");
  if (!rows.empty()) html += HtmlTable({"at", "what", "took", "went back to step", "steps done again", "cause"}, rows);
  return html;
}

double Whole(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_number() ? object[key].get<double>() : 0;
}

const Json& MemberOf(const Json& object, const char* key) {
  static const Json& none = *new Json();
  return object.is_object() && object.contains(key) ? object[key] : none;
}

// The peak of each category and of the processes' memory, each the largest of all ranks.
std::string MemoryTable(const Json& ranks) {
  std::map<std::string, std::map<std::string, double>> peaks;  // by category, then by space
  double process = 0;
  for (const Json& rank : ranks) {
    process = std::max(process, Whole(rank, "rss_peak_bytes"));
    for (const char* space : {"device", "host"}) {
      const Json& categories = MemberOf(MemberOf(rank, "memory"), space);
      if (!categories.is_object()) continue;
      for (const auto& [category, use] : categories.items()) {
        double& peak = peaks[category][space];
        peak = std::max(peak, Whole(use, "peak"));
      }
    }
  }
  if (peaks.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (auto& [category, of] : peaks) {
    rows.push_back(
        {category, HumanBytes(static_cast<int64_t>(of["device"])), HumanBytes(static_cast<int64_t>(of["host"]))});
  }
  return absl::StrCat("<h2>Peak memory, the largest of all ranks</h2>", HtmlTable({"category", "device", "host"}, rows),
                      "<p>Largest process: ", HumanBytes(static_cast<int64_t>(process)), "</p>\n");
}

std::string CollectivesTable(const Json& ranks) {
  std::vector<std::vector<std::string>> rows;
  if (ranks.is_array() && !ranks.empty()) {
    for (const Json& each : MemberOf(ranks.front(), "collectives")) {
      const double bytes = Whole(each, "bytes"), seconds = Whole(each, "seconds");
      const auto text = [&each](const char* key) {
        const Json& value = MemberOf(each, key);
        return value.is_string() ? value.get<std::string>() : "-";
      };
      rows.push_back({text("operation"), text("group"), text("backend"), absl::StrFormat("%.0f", Whole(each, "calls")),
                      absl::StrFormat("%.3f", bytes / 1e9),
                      seconds > 0 ? absl::StrFormat("%.2f", bytes / seconds / 1e9) : "-"});
    }
  }
  if (rows.empty()) return "";
  return absl::StrCat("<h2>Collectives of rank 0</h2>",
                      HtmlTable({"operation", "group", "backend", "calls", "sent GB", "GB/s"}, rows));
}

std::string FigureTable(const std::vector<RunFile>& runs) {
  std::vector<std::string> header = {""};
  std::vector<std::vector<std::string>> rows;
  for (const RunFile& run : runs) {
    header.push_back(run.name);
    const std::vector<RunFigure> figures = FiguresOf(run);
    for (size_t i = 0; i < figures.size(); ++i) {
      if (rows.size() == i) rows.push_back({figures[i].name});
      rows[i].push_back(figures[i].value);
    }
  }
  return HtmlTable(header, rows);
}

std::string Differences(const std::vector<RunFile>& runs) {
  if (runs.size() < 2) return "";
  std::string html = "<h2>What differs</h2>";
  for (size_t i = 1; i < runs.size(); ++i) {
    absl::StrAppend(&html, "<p>", EscapedHtml(absl::StrCat(runs[i].name, ": ", BitsText(runs.front(), runs[i]))),
                    "</p>\n");
  }
  std::vector<std::string> header = {"key"};
  for (const RunFile& run : runs) header.push_back(run.name);
  std::vector<std::vector<std::string>> rows;
  for (const DifferingKey& key : DifferingKeys(runs)) {
    rows.push_back({key.key});
    rows.back().insert(rows.back().end(), key.values.begin(), key.values.end());
  }
  return html + (rows.empty() ? "<p>No key of their configurations differs.</p>\n" : HtmlTable(header, rows));
}

}  // namespace

std::string RunsPage(const std::vector<RunFile>& runs) {
  const std::string title = runs.size() == 1 ? runs.front().name : absl::StrCat(runs.size(), " runs");
  std::string html = absl::StrCat(HtmlHead(title, absl::StrCat(kLineChartStyle, kRunsStyle)), "<h1>",
                                  EscapedHtml(title), "</h1>\n", FigureTable(runs), Charts(runs), Differences(runs));
  for (const RunFile& run : runs) {
    if (runs.size() > 1) absl::StrAppend(&html, "<h1>", EscapedHtml(run.name), "</h1>\n");
    const Json& ranks = MemberOf(run.end, "ranks");
    absl::StrAppend(&html, TimeLine(run), MemoryTable(ranks), CollectivesTable(ranks));
  }
  return html + "</html>\n";
}

}  // namespace zerofleet::cli
