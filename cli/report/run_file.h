// A report file read back: one run, whatever restarts and recoveries it went through; of several in one file, the last.
// Untrusted input.
#ifndef ZEROFLEET_CLI_REPORT_RUN_FILE_H_
#define ZEROFLEET_CLI_REPORT_RUN_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace zerofleet::cli {

struct ReportedStep {
  double loss = 0, grad_norm = 0, learning_rate = 0;  // NaN where the line has none
  double tokens_per_second = 0, mfu = 0, seconds = 0;
  int64_t tokens = 0;
  double unix_seconds = 0;  // when it was told; 0 where the line has no time
};

struct ReportedEvaluation {
  int64_t step = 0;
  std::string set = {};  // its name; empty for the loss over all of them
  double loss = 0;
  double unix_seconds = 0;
};

// Something that took time beside the steps, by the file's clock.
struct ReportedPause {
  enum class Kind { kRecovery, kRollback, kCheckpoint } kind;
  double at = 0;  // seconds since the first line
  double seconds = 0;
  int64_t step = 0;  // that training went back to, or that was saved
  int64_t lost_steps = 0;
  int64_t bytes = 0;  // of a checkpoint
  std::string cause = {};
};

struct RunFile {
  std::string name;                       // the path
  nlohmann::json start, end;              // the newest start and what ended after it; null without
  std::map<int64_t, ReportedStep> steps;  // as they were told last
  std::vector<ReportedEvaluation> evaluations;
  std::vector<ReportedPause> pauses;
  int starts = 0, failed_saves = 0;
  int runs_before = 0;      // with other run_ids, in the same file
  int64_t steps_told = 0;   // more than `steps` where some were done again
  double wall_seconds = 0;  // from the first line to the last
  bool torn = false;        // the last line is cut short: the run was writing it, or died over it

  int Count(ReportedPause::Kind kind) const;
  // Time in steps that count, of all time; NaN where the lines have no time.
  double Goodput() const;
  // Tokens per second, and model FLOPs per peak, of all steps but the first, which warms up caches.
  double TokensPerSecond() const;
  double Mfu() const;
};

// DataLoss naming the line for what is no report: JSON that is malformed, a field of another type, a file without a
// step. Events of other names are left out.
absl::StatusOr<RunFile> ParseRunFile(std::string name, std::string_view text);
// The same of a file. NotFound if there is none.
absl::StatusOr<RunFile> ReadRunFile(const std::string& path);
// The same of a run that may not have done a step yet.
absl::StatusOr<RunFile> ReadBegunRun(const std::string& path);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_RUN_FILE_H_
