// Grids and their tables; see sweep.h.
#include "cli/commands/sweep.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "cli/report/run_compare.h"
#include "cli/report/run_file.h"
#include "cli/report/table.h"
#include "proto/json.h"
#include "worker/model/foreign.h"
#include "worker/trainer/rules.h"

namespace zerofleet::cli {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Splits `text` at commas outside brackets and quotes.
std::vector<std::string> SplitValues(const std::string& text) {
  std::vector<std::string> values = {""};
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      quote = c == quote ? '\0' : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
    if (c == ',' && depth == 0 && quote == 0) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  return values;
}

std::string LastWord(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// The axis's key as it appears in names and in the table.
std::string AxisName(const GridAxis& axis, const std::vector<GridAxis>& axes) {
  const auto same = [&](const GridAxis& other) { return LastWord(other.key) == LastWord(axis.key); };
  return std::count_if(axes.begin(), axes.end(), same) > 1 ? axis.key : LastWord(axis.key);
}

// Replaces everything but letters, digits, dots, plus and minus by a dash.
std::string FileSafe(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '+' && c != '-') c = '-';
  }
  return text;
}

// Compares `config` with the one that the run was started with. A planned offload.fraction and a foreign model's record
// are not compared, since only the run knows them.
absl::Status CheckSameConfig(const RunFile& run, const v1::Config& config) {
  if (!run.start.is_object() || !run.start.contains("config")) return absl::OkStatus();
  std::vector<RunFile> runs(2);
  runs[0].start["config"] = run.start["config"];
  runs[1].start["config"] = ProtoToJson(config);
  const bool foreign = model::IsForeign(config.model()),
             planned = config.offload().fraction() == trainer::kFractionByPlan;
  for (const DifferingKey& key : DifferingKeys(runs)) {
    if (key.key == "checkpoint.dir" || (planned && key.key == "offload.fraction")) continue;
    if (foreign && (key.key == "steps" || key.key.starts_with("model.") || key.key.starts_with("data."))) continue;
    const auto text = [](const std::string& value) { return value.empty() ? "nothing" : value; };
    return absl::InvalidArgumentError(absl::StrCat("--dir: ", run.name, " is the report of a run with ", key.key, ": ",
                                                   text(key.values[0]), ", not ", text(key.values[1]),
                                                   "; name another --dir, or set what it had"));
  }
  return absl::OkStatus();
}

std::string Cell(double value) { return std::isnan(value) ? "" : absl::StrFormat("%.4f", value); }

}  // namespace

absl::StatusOr<GridAxis> ParseGridAxis(const std::string& text) {
  const size_t at = text.find('=');
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--grid: \"", absl::CHexEscape(text), "\" ", what, "; such as optimizer.learning_rate=1e-4,3e-4"));
  };
  if (at == std::string::npos || at == 0) return wrong("is no KEY=V1,V2");
  GridAxis axis = {text.substr(0, at), SplitValues(text.substr(at + 1))};
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    if (value.empty()) return wrong("has an empty value");
    if (!seen.insert(value).second) return wrong(absl::StrCat("has the value ", value, " twice"));
  }
  return axis;
}

absl::StatusOr<std::vector<SweepRun>> SweepRuns(const std::vector<GridAxis>& axes) {
  std::set<std::string> keys;
  std::vector<SweepRun> runs = {{}};
  for (const GridAxis& axis : axes) {
    if (!keys.insert(axis.key).second) {
      return absl::InvalidArgumentError(absl::StrCat("--grid: ", axis.key, " is given twice"));
    }
    std::vector<SweepRun> more;
    for (const SweepRun& run : runs) {
      for (const std::string& value : axis.values) {
        SweepRun& one = more.emplace_back(run);
        one.settings.push_back(absl::StrCat(axis.key, "=", value));
        absl::StrAppend(&one.name, one.name.empty() ? "" : "_", FileSafe(AxisName(axis, axes)), "-", FileSafe(value));
      }
    }
    if (more.size() > kMostSweepRuns) {
      return absl::InvalidArgumentError(absl::StrCat("--grid: more than ", kMostSweepRuns, " runs"));
    }
    runs = std::move(more);
  }
  // Names that are the same after FileSafe get the run's number.
  std::set<std::string> names;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!names.insert(runs[i].name).second) absl::StrAppend(&runs[i].name, "_", i);
  }
  return runs;
}

absl::StatusOr<SweepOutcome> OutcomeOf(const std::string& report_path, const v1::Config& config) {
  SweepOutcome outcome{.loss = kNone, .validation_loss = kNone, .tokens_per_second = kNone};
  const absl::StatusOr<RunFile> run = ReadBegunRun(report_path);
  if (absl::IsNotFound(run.status())) return outcome;
  ZF_RETURN_IF_ERROR(run);
  ZF_RETURN_IF_ERROR(CheckSameConfig(*run, config));
  if (run->steps.empty()) return outcome;
  outcome.steps = run->steps.rbegin()->first;
  outcome.loss = run->steps.rbegin()->second.loss;
  // Reports of old versions do not say whether their run was stopped.
  const nlohmann::json& end = run->end;
  const bool says = end.is_object() && end.contains("stopped") && end["stopped"].is_boolean();
  const bool stopped = says ? end["stopped"].get<bool>() : outcome.steps < config.steps();
  outcome.ended = end.is_object() && !stopped;
  outcome.tokens_per_second = run->TokensPerSecond();
  for (const ReportedEvaluation& one : run->evaluations) {
    if (one.set.empty()) outcome.validation_loss = one.loss;
  }
  return outcome;
}

std::string SweepTable(const std::vector<GridAxis>& axes, const std::vector<SweepRun>& runs,
                       const std::vector<SweepOutcome>& outcomes, const Terminal& terminal) {
  const bool by_validation = std::none_of(outcomes.begin(), outcomes.end(),
                                          [](const SweepOutcome& one) { return std::isnan(one.validation_loss); });
  const auto rank = [&](size_t i) {
    const double loss = by_validation ? outcomes[i].validation_loss : outcomes[i].loss;
    return outcomes[i].ended && !std::isnan(loss) ? loss : std::numeric_limits<double>::infinity();
  };
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  std::vector<std::string> header = {"run"};
  for (const GridAxis& axis : axes) header.push_back(AxisName(axis, axes));
  for (const char* column : {"steps", "loss", "validation", "tokens/s"}) header.emplace_back(column);
  TextTable table(header);
  for (const size_t i : order) {
    std::vector<std::string> row = {runs[i].name};
    for (const std::string& setting : runs[i].settings) row.push_back(setting.substr(setting.find('=') + 1));
    row.push_back(absl::StrCat(outcomes[i].steps, outcomes[i].ended ? "" : " (not ended)"));
    row.push_back(Cell(outcomes[i].loss));
    row.push_back(Cell(outcomes[i].validation_loss));
    row.push_back(std::isnan(outcomes[i].tokens_per_second) ? ""
                                                            : absl::StrFormat("%.0f", outcomes[i].tokens_per_second));
    table.Add(std::move(row));
  }
  return table.Render(0, terminal);
}

}  // namespace zerofleet::cli
