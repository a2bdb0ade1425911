// Fields, quoted where they must be; see csv.h.
#include "cli/report/csv.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace zerofleet::cli {
namespace {

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string CsvNumber(double value) { return std::isnan(value) ? "" : absl::StrFormat("%.17g", value); }

}  // namespace

std::string RunsCsv(std::span<const RunFile> runs) {
  std::string csv =
      "run,kind,step,set,loss,grad_norm,learning_rate,tokens,seconds,tokens_per_second,mfu,unix_seconds\r\n";
  const auto add = [&csv](const std::vector<std::string>& fields) {
    absl::StrAppend(&csv, absl::StrJoin(fields, ","), "\r\n");
  };
  for (const RunFile& run : runs) {
    for (const auto& [step, told] : run.steps) {
      add({Quoted(run.name), "step", absl::StrCat(step), "", CsvNumber(told.loss), CsvNumber(told.grad_norm),
           CsvNumber(told.learning_rate), absl::StrCat(told.tokens), CsvNumber(told.seconds),
           CsvNumber(told.tokens_per_second), CsvNumber(told.mfu), CsvNumber(told.unix_seconds)});
    }
    for (const ReportedEvaluation& one : run.evaluations) {
      add({Quoted(run.name), "evaluation", absl::StrCat(one.step), Quoted(one.set), CsvNumber(one.loss), "", "", "", "",
           "", "", CsvNumber(one.unix_seconds)});
    }
  }
  return csv;
}

}  // namespace zerofleet::cli
