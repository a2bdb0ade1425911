// See run_text.h; the page is in run_page.cc.
#include "cli/report/run_text.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "cli/report/curve.h"
#include "cli/report/run_compare.h"
#include "cli/report/table.h"

namespace zerofleet::cli {
namespace {

using Json = nlohmann::json;

// A field of the start event as text; a dash if there is none.
std::string StartText(const RunFile& run, const char* key) {
  if (!run.start.is_object() || !run.start.contains(key)) return "-";
  const Json& value = run.start[key];
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? absl::StrCat(value.get<double>()) : "-";
}

std::string Figure(double value) { return std::isfinite(value) ? absl::StrFormat("%.5g", value) : "-"; }

std::string PercentText(double ratio) { return std::isfinite(ratio) ? absl::StrFormat("%.1f%%", 100 * ratio) : "-"; }

// "wiki 2.31 (best 2.30 at step 80)", for each validation set.
std::string ValidationText(const RunFile& run) {
  std::map<std::string, std::pair<ReportedEvaluation, ReportedEvaluation>> sets;  // the last and the best
  for (const ReportedEvaluation& one : run.evaluations) {
    const auto [at, fresh] = sets.try_emplace(one.set, one, one);
    if (fresh) continue;
    at->second.first = one;
    ReportedEvaluation& best = at->second.second;
    if (one.loss < best.loss || std::isnan(best.loss)) best = one;
  }
  std::vector<std::string> texts;
  for (const auto& [name, found] : sets) {
    const auto& [last, best] = found;
    std::string text =
        absl::StrFormat("%s%s%s at step %d", name, name.empty() ? "" : " ", Figure(last.loss), last.step);
    if (!std::isnan(best.loss)) absl::StrAppendFormat(&text, " (best %.5g at step %d)", best.loss, best.step);
    texts.push_back(std::move(text));
  }
  return texts.empty() ? "none" : absl::StrJoin(texts, ", ");
}

std::string RecoveriesText(const RunFile& run) {
  int64_t lost = 0;
  double seconds = 0;
  for (const ReportedPause& pause : run.pauses) {
    if (pause.kind != ReportedPause::Kind::kRecovery) continue;
    lost += pause.lost_steps;
    seconds += pause.seconds > 0 ? pause.seconds : 0;
  }
  const int count = run.Count(ReportedPause::Kind::kRecovery), rollbacks = run.Count(ReportedPause::Kind::kRollback);
  std::string text = count == 0 ? "none" : absl::StrFormat("%d in %.2f s, %d steps done again", count, seconds, lost);
  if (rollbacks > 0) absl::StrAppend(&text, "; ", CountText(rollbacks, "rollback"));
  return text;
}

std::string CheckpointsText(const RunFile& run) {
  double stall = 0;
  for (const ReportedPause& pause : run.pauses) {
    if (pause.kind == ReportedPause::Kind::kCheckpoint && pause.seconds > 0) stall += pause.seconds;
  }
  return absl::StrFormat("%d, which held up training for %.2f s; %d failed",
                         run.Count(ReportedPause::Kind::kCheckpoint), stall, run.failed_saves);
}

std::string ProcessText(const RunFile& run) {
  const std::string workers = StartText(run, "world_size");
  std::string text = absl::StrCat(workers, workers == "1" ? " worker on " : " workers on ", StartText(run, "device"),
                                  ", zerofleet ", StartText(run, "version"));
  if (run.starts > 1) absl::StrAppend(&text, ", started ", run.starts, " times");
  return text;
}

std::vector<CurvePoint> PointsOf(const RunFile& run, const RunSeries& series) {
  std::vector<CurvePoint> points;
  for (const auto& [number, step] : run.steps) points.push_back({static_cast<double>(number), step.*series.value});
  return points;
}

std::string SparklinesText(const RunFile& run, const Terminal& terminal) {
  constexpr int kNames = 16, kEnds = 24, kMostColumns = 60, kFewestColumns = 10;
  const int columns = std::clamp(terminal.text_columns() - kNames - kEnds, kFewestColumns, kMostColumns);
  std::string text;
  for (const RunSeries& series : AllRunSeries()) {
    const std::string line = Sparkline(PointsOf(run, series), columns);
    if (line.empty()) continue;
    absl::StrAppendFormat(&text, "  %-14s%10s %s %s\n", series.name, Figure(run.steps.begin()->second.*series.value),
                          line, Figure(run.steps.rbegin()->second.*series.value));
  }
  return text;
}

std::string DifferencesText(const std::vector<RunFile>& runs, const Terminal& terminal) {
  std::string text = "\n";
  for (size_t i = 1; i < runs.size(); ++i) {
    absl::StrAppend(
        &text, WrapText(absl::StrCat(runs[i].name, ": ", BitsText(runs.front(), runs[i])), terminal.columns()), "\n");
  }
  const std::vector<DifferingKey> keys = DifferingKeys(runs);
  if (keys.empty()) return text + "No key of their configurations differs.\n";
  std::vector<std::string> header = {"key"};
  for (const RunFile& run : runs) header.push_back(run.name);
  TextTable table(header);
  for (const DifferingKey& key : keys) {
    std::vector<std::string> row = {key.key};
    for (const std::string& value : key.values) row.push_back(value.empty() ? "-" : value);
    table.Add(row);
  }
  return absl::StrCat(text, "\nKeys that differ\n", table.Render(2, terminal));
}

}  // namespace

const std::vector<RunSeries>& AllRunSeries() {
  static const std::vector<RunSeries>& series = *new std::vector<RunSeries>{
      {"loss", &ReportedStep::loss},
      {"gradient norm", &ReportedStep::grad_norm},
      {"learning rate", &ReportedStep::learning_rate},
      {"tokens/s", &ReportedStep::tokens_per_second},
      {"MFU", &ReportedStep::mfu},
  };
  return series;
}

std::vector<RunFigure> FiguresOf(const RunFile& run) {
  const auto& [first, first_step] = *run.steps.begin();
  const auto& [last, last_step] = *run.steps.rbegin();
  int64_t tokens = 0;
  for (const auto& [number, step] : run.steps) tokens += step.tokens;
  std::string steps = absl::StrCat(first, " to ", last);
  if (run.runs_before > 0) absl::StrAppend(&steps, ", of the last run of ", run.runs_before + 1, " in this file");
  if (run.end.is_null()) absl::StrAppend(&steps, ", no end told", run.torn ? ", its last line cut short" : "");
  const double speed = run.TokensPerSecond();
  return {{"fleet", ProcessText(run)},
          {"steps", steps},
          {"tokens", HumanCount(static_cast<double>(tokens))},
          {"loss", absl::StrCat(Figure(first_step.loss), " to ", Figure(last_step.loss))},
          {"validation loss", ValidationText(run)},
          {"speed",
           std::isfinite(speed) ? absl::StrCat(HumanCount(speed), " tokens/s, MFU ", PercentText(run.Mfu())) : "-"},
          {"goodput", absl::StrCat(PercentText(run.Goodput()), " of ", HumanSeconds(run.wall_seconds))},
          {"recoveries", RecoveriesText(run)},
          {"checkpoints", CheckpointsText(run)}};
}

std::string RunsText(const std::vector<RunFile>& runs, bool compare, const Terminal& terminal) {
  std::string text;
  for (const RunFile& run : runs) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", terminal.Paint(Style::kHeading, run.name), "\n");
    for (const RunFigure& figure : FiguresOf(run)) {
      const std::string name = absl::StrFormat("  %-18s", figure.name);
      absl::StrAppend(&text, name, WrapText(figure.value, terminal.columns(), 20, 20), "\n");
    }
    absl::StrAppend(&text, "\n", SparklinesText(run, terminal));
  }
  if (compare && runs.size() > 1) text += DifferencesText(runs, terminal);
  return text;
}

}  // namespace zerofleet::cli
