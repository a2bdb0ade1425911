// The plan as one HTML page: tables and SVG bars, no script, nothing fetched; see cluster_plan.h.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/planner/cluster_plan.h"
#include "cli/report/html.h"

namespace zerofleet::cli {
namespace {

constexpr char kStyle[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 "
    "1rem;color:#1b1f24;background:#fff}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;border-bottom:1px solid "
    "#d0d7de;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto}text{font:13px "
    "system-ui,sans-serif;"
    "fill:#1b1f24}.bar{fill:#3f51b5}.over{fill:#c62828}.limit{stroke:#888;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){body{background:#15181d;color:#e6e6e6}text{fill:#e6e6e6}.bar{fill:#8c9eff}"
    "td,th{border-color:#333a44}}";

struct PageBar {
  std::string name, figure;
  double amount;
};

// Bars over a common scale, with a line at `limit` if it is above 0.
std::string Chart(const std::string& title, const std::vector<PageBar>& bars, double limit) {
  constexpr int kNames = 190, kRoom = 460, kFigures = 130, kLine = 26;
  double most = limit;
  for (const PageBar& bar : bars) most = std::max(most, bar.amount);
  const int height = static_cast<int>(bars.size()) * kLine + 8;
  std::string svg = absl::StrFormat("<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">",
                                    kNames + kRoom + kFigures, height, EscapedHtml(title));
  int y = 4;
  for (const PageBar& bar : bars) {
    const double width = most > 0 ? bar.amount / most * kRoom : 0;
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", kNames - 8, y + 17,
                          EscapedHtml(bar.name));
    if (bar.amount > 0)
      absl::StrAppendFormat(&svg, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>",
                            limit > 0 && bar.amount > limit ? "over" : "bar", kNames, y + 3, width, kLine - 8);
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%d\">%s</text>", kNames + width + 6, y + 17,
                          EscapedHtml(bar.figure));
    y += kLine;
  }
  if (limit > 0) {
    const double x = kNames + limit / most * kRoom;
    absl::StrAppendFormat(&svg, "<line class=\"limit\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%d\"/>", x, x, height);
  }
  return absl::StrCat("<h2>", EscapedHtml(title), "</h2>", svg, "</svg>\n");
}

std::string Table(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string html = "<table>";
  for (const auto& [name, value] : rows) {
    absl::StrAppend(&html, "<tr><th>", EscapedHtml(name), "</th><td class=\"n\">", EscapedHtml(value), "</td></tr>");
  }
  return html + "</table>\n";
}

std::string Milliseconds(double seconds) { return absl::StrFormat("%.2f ms", seconds * 1e3); }

std::string MemoryChart(const ClusterPlan& plan, memory::Space space) {
  const MemoryNeed& need = plan.rank.need;
  const bool device = space == memory::Space::kDevice;
  std::vector<PageBar> bars;
  for (int c = 0; c < memory::kCategories; ++c) {
    const int64_t bytes = plan.rank.plan.Bytes(space, static_cast<memory::Category>(c));
    if (bytes > 0) {
      bars.push_back({memory::CategoryName(static_cast<memory::Category>(c)), HumanBytes(bytes), double(bytes)});
    }
  }
  const int64_t shared = device ? plan.rank.plan.SharedBytes(space) : 0;
  if (shared > 0) bars.push_back({"shared", HumanBytes(-shared), 0});
  if (device) bars.push_back({"outside the plan", HumanBytes(need.outside), static_cast<double>(need.outside)});
  const int64_t peak = device ? need.device_sum() : need.host, limit = device ? need.device_limit : need.host_limit;
  bars.push_back({"peak", absl::StrCat(HumanBytes(peak), " of ", HumanBytes(limit)), static_cast<double>(peak)});
  std::string html =
      Chart(device ? "Device memory of rank 0" : "Host memory of rank 0", bars, static_cast<double>(limit));
  if (shared > 0) {
    absl::StrAppend(&html,
                    "<p>shared: buffers that no phase of a step uses together lie at one place, so that the sum of the "
                    "rows is this much above what is reserved.</p>\n");
  }
  return html;
}

// A table of the fastest choices that fit, as predicted by the rates.
std::string ChoiceTable(const ClusterPlan& plan) {
  if (!plan.pick.ok() || plan.pick->fastest.empty()) return "";
  const Pick& pick = *plan.pick;
  std::string html = absl::StrFormat(
      "<h2>The fastest %d of the %d settings that fit, of %d tried</h2><table><tr><th>Settings</th><th>Step</th>"
      "<th>Tokens per second</th><th>MFU</th><th>Device memory</th><th>Host memory</th></tr>",
      pick.fastest.size(), pick.fitting, pick.tried);
  const auto number = [&html](const std::string& text) {
    absl::StrAppend(&html, "<td class=\"n\">", EscapedHtml(text), "</td>");
  };
  for (const Choice& choice : pick.fastest) {
    absl::StrAppend(&html, "<tr><td>", EscapedHtml(choice.Name()), "</td>");
    number(Milliseconds(choice.estimate.time.seconds()));
    number(HumanCount(choice.estimate.tokens_per_second));
    number(absl::StrFormat("%.1f%%", 100 * choice.estimate.time.mfu));
    number(HumanBytes(choice.estimate.need.device_sum()));
    number(HumanBytes(choice.estimate.need.host));
    html += "</tr>";
  }
  return html + "</table>\n";
}

}  // namespace

std::string ClusterPlanPage(const ClusterPlan& plan) {
  const RankEstimate& rank = plan.rank;
  const StepTime& time = rank.time;
  const PredictedStep step = PredictedStepOf(plan);
  std::string html =
      absl::StrCat("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" ",
                   "content=\"width=device-width\">\n<title>Plan of ", EscapedHtml(plan.name), "</title>\n<style>",
                   kStyle, "</style>\n<h1>", EscapedHtml(plan.name), ", ", HumanCount(plan.parameters),
                   " parameters</h1>\n<p>", EscapedHtml(ClusterText(plan.cluster)), "</p>\n");
  absl::StrAppend(
      &html,
      Table({{"Does it fit", rank.need.Verdict()},
             {"Largest model that fits", LargestText(plan)},
             {"Longest context that fits", plan.longest ? absl::StrCat(*plan.longest, " tokens") : "none"},
             {"Smallest cluster that fits it", plan.smallest ? absl::StrCat(*plan.smallest, " devices") : "none"},
             {"Predicted step", absl::StrCat(Milliseconds(step.seconds), ", ", PredictedFrom(plan))},
             {"Tokens per second", HumanCount(step.tokens_per_second)},
             {"MFU", absl::StrFormat("%.1f%%", 100 * step.mfu)},
             {"Sent within its node, GB", absl::StrFormat("%.3f", rank.traffic.sum().peer / 1e9)},
             {"Sent to other nodes, GB", absl::StrFormat("%.3f", rank.traffic.sum().link / 1e9)},
             {"Copied to the host and back, GB", absl::StrFormat("%.3f", rank.host_link_bytes / 1e9)},
             {"Pick", plan.pick.ok() ? plan.pick->first.Name() : std::string(plan.pick.status().message())},
             {"Reason", plan.pick.ok() ? plan.pick->reason : ""}}));
  const std::pair<const char*, double> parts[] = {{"forward", time.forward},
                                                  {"backward", time.backward},
                                                  {"gathers not hidden", time.exposed_gather},
                                                  {"reductions not hidden", time.exposed_reduce},
                                                  {"tensor group", time.tensor},
                                                  {"update", time.update},
                                                  {"host copies not hidden", time.exposed_copies}};
  std::vector<PageBar> bars;
  for (const auto& [part, seconds] : parts) {
    if (seconds > 0) bars.push_back({part, Milliseconds(seconds), seconds});
  }
  absl::StrAppend(&html, ChoiceTable(plan), MemoryChart(plan, memory::Space::kDevice),
                  MemoryChart(plan, memory::Space::kHost),
                  Chart("Step of rank 0 at the rates of its machine", bars, 0));
  absl::StrAppend(&html, "<p>", EscapedHtml(ConventionText(plan.config)), "</p>\n");
  for (const std::string& note : plan.notes) absl::StrAppend(&html, "<p>", EscapedHtml(note), "</p>\n");
  return html + "</html>\n";
}

}  // namespace zerofleet::cli
