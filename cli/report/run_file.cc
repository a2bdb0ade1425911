// From the lines of a report to the history of its run; see run_file.h.
#include "cli/report/run_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/status.h"
#include "proto/json_parse.h"

namespace zerofleet::cli {
namespace {

using Json = nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kLongestLine = size_t{16} << 20;

absl::Status BadField(const char* key, const char* expected) {
  return absl::DataLossError(absl::StrCat("\"", key, "\" must be ", expected));
}

// NaN if the key is missing or null: reports write null for numbers that JSON cannot represent.
absl::Status GetNumber(const Json& line, const char* key, double* into) {
  *into = kNone;
  if (!line.contains(key) || line[key].is_null()) return absl::OkStatus();
  if (!line[key].is_number()) return BadField(key, "a number");
  *into = line[key].get<double>();
  return absl::OkStatus();
}

absl::Status GetWhole(const Json& line, const char* key, int64_t* into) {
  *into = 0;
  if (!line.contains(key)) return absl::OkStatus();
  if (!line[key].is_number_integer() || line[key].get<int64_t>() < 0) return BadField(key, "a number >= 0");
  *into = line[key].get<int64_t>();
  return absl::OkStatus();
}

absl::Status GetText(const Json& line, const char* key, std::string* into) {
  if (!line.contains(key)) return absl::OkStatus();
  if (!line[key].is_string()) return BadField(key, "a text");
  *into = line[key].get<std::string>();
  return absl::OkStatus();
}

// Collects the lines of one file.
class HistoryReader {
 public:
  explicit HistoryReader(RunFile& run) : run_(run) {}

  absl::Status Add(const Json& line) {
    if (!line.is_object()) return absl::DataLossError("no JSON object");
    std::string event;
    ZF_RETURN_IF_ERROR(GetText(line, "event", &event));
    if (event == "start") ZF_RETURN_IF_ERROR(BeginRun(line));
    ZF_RETURN_IF_ERROR(SetTime(line));
    int64_t generation = 0;
    ZF_RETURN_IF_ERROR(GetWhole(line, "generation", &generation));
    const bool told_again = generation > 0 && generation <= generation_;
    generation_ = std::max(generation, generation_);
    if (event == "start") return AddStart(line, told_again);
    if (event == "end") {
      run_.end = line;
      return absl::OkStatus();
    }
    if (event == "step") return AddStep(line);
    if (event == "evaluate") return AddEvaluation(line);
    if (event == "checkpoint") return AddCheckpoint(line);
    if (event == "recovery" || event == "rollback") return AddLoss(line, event == "recovery");
    if (event == "save_failed") ++run_.failed_saves;
    return absl::OkStatus();
  }

 private:
  // The history is that of the file's last run; those before it are only counted.
  absl::Status BeginRun(const Json& line) {
    std::string run_id;
    ZF_RETURN_IF_ERROR(GetText(line, "run_id", &run_id));
    if (run_id.empty()) return absl::OkStatus();  // reports of old versions have none
    const bool another = !run_id_.empty() && run_id != run_id_;
    run_id_ = run_id;
    if (!another) return absl::OkStatus();
    RunFile fresh;
    fresh.name = std::move(run_.name);
    fresh.runs_before = run_.runs_before + 1;
    run_ = std::move(fresh);
    first_.reset();
    generation_ = 0;
    return absl::OkStatus();
  }

  // Steps after the one that the run resumes from are repeated, so they are forgotten; not so if a restarted
  // coordinator repeats the start of a generation that is still training (`told_again`).
  absl::Status AddStart(const Json& line, bool told_again) {
    int64_t resumed_from = 0;
    if (line.contains("resumed_from") && !line["resumed_from"].is_null()) {
      ZF_RETURN_IF_ERROR(GetWhole(line, "resumed_from", &resumed_from));
    }
    if (!told_again) ForgetAfter(resumed_from);
    run_.start = line;
    run_.end = nullptr;
    ++run_.starts;
    return absl::OkStatus();
  }

  void ForgetAfter(int64_t step) {
    run_.steps.erase(run_.steps.upper_bound(step), run_.steps.end());
    std::erase_if(run_.evaluations, [&](const ReportedEvaluation& one) { return one.step > step; });
  }

  absl::Status SetTime(const Json& line) {
    std::string text;
    ZF_RETURN_IF_ERROR(GetText(line, "time", &text));
    absl::Time time;
    std::string error;
    if (text.empty()) return absl::OkStatus();
    if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return BadField("time", "a time as RFC 3339 has it");
    if (!first_) first_ = time;
    now_ = std::max(0.0, absl::ToDoubleSeconds(time - *first_));
    unix_seconds_ = absl::ToDoubleSeconds(time - absl::UnixEpoch());
    run_.wall_seconds = std::max(run_.wall_seconds, now_);
    return absl::OkStatus();
  }

  absl::Status AddStep(const Json& line) {
    int64_t number = 0;
    ReportedStep step;
    ZF_RETURN_IF_ERROR(GetWhole(line, "step", &number));
    ZF_RETURN_IF_ERROR(GetWhole(line, "tokens", &step.tokens));
    for (const auto& [key, into] : {std::pair<const char*, double*>{"loss", &step.loss},
                                    {"grad_norm", &step.grad_norm},
                                    {"learning_rate", &step.learning_rate},
                                    {"tokens_per_second", &step.tokens_per_second},
                                    {"mfu", &step.mfu},
                                    {"seconds", &step.seconds}}) {
      ZF_RETURN_IF_ERROR(GetNumber(line, key, into));
    }
    step.unix_seconds = unix_seconds_;
    run_.steps[number] = step;
    ++run_.steps_told;
    return absl::OkStatus();
  }

  absl::Status AddEvaluation(const Json& line) {
    ReportedEvaluation evaluation;
    ZF_RETURN_IF_ERROR(GetWhole(line, "step", &evaluation.step));
    ZF_RETURN_IF_ERROR(GetNumber(line, "loss", &evaluation.loss));
    evaluation.unix_seconds = unix_seconds_;
    run_.evaluations.push_back(evaluation);
    if (!line.contains("sets")) return absl::OkStatus();
    if (!line["sets"].is_array()) return BadField("sets", "an array");
    for (const Json& set : line["sets"]) {
      if (!set.is_object()) return BadField("sets", "an array of objects");
      ZF_RETURN_IF_ERROR(GetText(set, "name", &evaluation.set));
      ZF_RETURN_IF_ERROR(GetNumber(set, "loss", &evaluation.loss));
      run_.evaluations.push_back(evaluation);
    }
    return absl::OkStatus();
  }

  absl::Status AddCheckpoint(const Json& line) {
    ReportedPause pause{.kind = ReportedPause::Kind::kCheckpoint, .at = now_};
    ZF_RETURN_IF_ERROR(GetWhole(line, "step", &pause.step));
    ZF_RETURN_IF_ERROR(GetWhole(line, "bytes", &pause.bytes));
    ZF_RETURN_IF_ERROR(GetNumber(line, "stall_seconds", &pause.seconds));
    run_.pauses.push_back(std::move(pause));
    return absl::OkStatus();
  }

  absl::Status AddLoss(const Json& line, bool recovery) {
    ReportedPause pause{.kind = recovery ? ReportedPause::Kind::kRecovery : ReportedPause::Kind::kRollback, .at = now_};
    ZF_RETURN_IF_ERROR(GetWhole(line, "resumed_step", &pause.step));
    ZF_RETURN_IF_ERROR(GetWhole(line, "lost_steps", &pause.lost_steps));
    ZF_RETURN_IF_ERROR(GetNumber(line, "seconds", &pause.seconds));
    ZF_RETURN_IF_ERROR(GetText(line, "cause", &pause.cause));
    ForgetAfter(pause.step);  // what lies behind it is done again, or left out
    run_.pauses.push_back(std::move(pause));
    return absl::OkStatus();
  }

  RunFile& run_;
  std::string run_id_;
  int64_t generation_ = 0;  // the newest in the file so far
  std::optional<absl::Time> first_;
  double now_ = 0, unix_seconds_ = 0;
};

// The sum of `value` per second, over all steps but the first (unless it is the only one).
template <typename Value>
double OverSteps(const RunFile& run, const Value& value) {
  double sum = 0, seconds = 0;
  for (auto step = run.steps.begin(); step != run.steps.end(); ++step) {
    if (step == run.steps.begin() && run.steps.size() > 1) continue;
    if (!(step->second.seconds > 0)) continue;
    sum += value(step->second);
    seconds += step->second.seconds;
  }
  return seconds > 0 ? sum / seconds : kNone;
}

}  // namespace

int RunFile::Count(ReportedPause::Kind kind) const {
  return static_cast<int>(
      std::count_if(pauses.begin(), pauses.end(), [&](const ReportedPause& one) { return one.kind == kind; }));
}

double RunFile::Goodput() const {
  double productive = 0;
  for (const auto& [number, step] : steps) productive += step.seconds > 0 ? step.seconds : 0;
  // At most 1, since times are rounded. The clock starts with the first line, when the first step begins.
  return wall_seconds > 0 ? std::min(1.0, productive / wall_seconds) : kNone;
}

double RunFile::TokensPerSecond() const {
  return OverSteps(*this, [](const ReportedStep& step) { return static_cast<double>(step.tokens); });
}

double RunFile::Mfu() const {
  return OverSteps(*this, [](const ReportedStep& step) { return step.mfu * step.seconds; });
}

namespace {

absl::StatusOr<RunFile> ParseBegunRun(std::string name, std::string_view text) {
  RunFile run;
  run.name = std::move(name);
  HistoryReader reader(run);
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const bool whole = end != text.npos;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(whole ? end + 1 : text.size());
    if (line.empty()) continue;
    absl::Status added = absl::DataLossError("longer than 16 MiB");
    if (line.size() <= kLongestLine) {
      const absl::StatusOr<Json> parsed = ParseJson(line);
      if (!parsed.ok() && !whole) {
        run.torn = true;
        break;
      }
      added = parsed.ok() ? reader.Add(*parsed) : absl::DataLossError(std::string(parsed.status().message()));
    }
    if (!added.ok()) return Annotate(added, absl::StrCat(run.name, ": line ", number));
  }
  return run;
}

absl::StatusOr<RunFile> WithSteps(absl::StatusOr<RunFile> run) {
  if (!run.ok() || !run->steps.empty()) return run;
  return absl::DataLossError(absl::StrCat(run->name, ": holds no step of a run"));
}

}  // namespace

absl::StatusOr<RunFile> ParseRunFile(std::string name, std::string_view text) {
  return WithSteps(ParseBegunRun(std::move(name), text));
}

absl::StatusOr<RunFile> ReadBegunRun(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  return ParseBegunRun(path, {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
}

absl::StatusOr<RunFile> ReadRunFile(const std::string& path) { return WithSteps(ReadBegunRun(path)); }

}  // namespace zerofleet::cli
