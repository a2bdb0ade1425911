// A report file read back, as the history of one run across restarts and recoveries. If the file has several runs, the
// last one counts. Files are untrusted input.
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
  double unix_seconds = 0;  // the line's time; 0 if it has none
};

struct ReportedEvaluation {
  int64_t step = 0;
  std::string set = {};  // the validation set's name; empty for the loss over all sets
  double loss = 0;
  double unix_seconds = 0;
};

// Something other than a step that took time.
struct ReportedPause {
  enum class Kind { kRecovery, kRollback, kCheckpoint } kind;
  double at = 0;  // seconds since the first line
  double seconds = 0;
  int64_t step = 0;  // the step that training went back to, or that was saved
  int64_t lost_steps = 0;
  int64_t bytes = 0;  // the checkpoint's size
  std::string cause = {};
};

struct RunFile {
  std::string name;                       // the path
  nlohmann::json start, end;              // the newest start event and the end event after it; null if there is none
  std::map<int64_t, ReportedStep> steps;  // by number; a step that was repeated has its newest figures
  std::vector<ReportedEvaluation> evaluations;
  std::vector<ReportedPause> pauses;
  int starts = 0, failed_saves = 0;
  int runs_before = 0;      // earlier runs (other run_ids) in the same file
  int64_t steps_told = 0;   // step lines read; more than `steps` if some steps were repeated
  double wall_seconds = 0;  // from the first line to the last
  bool torn = false;        // the last line is cut short: the run was writing it, or died over it

  int Count(ReportedPause::Kind kind) const;
  // The fraction of wall_seconds that was spent in the steps in `steps`; NaN if the lines have no times.
  double Goodput() const;
  // Tokens per second, and model FLOPs utilization, over all steps but the first, which warms up caches.
  double TokensPerSecond() const;
  double Mfu() const;
};

// DataLoss, naming the line, if the text is no report: malformed JSON, a field of the wrong type, or no step. Unknown
// events are ignored.
absl::StatusOr<RunFile> ParseRunFile(std::string name, std::string_view text);
// ParseRunFile on the file at `path`. NotFound if there is none.
absl::StatusOr<RunFile> ReadRunFile(const std::string& path);
// ReadRunFile, except that the run may have no step yet.
absl::StatusOr<RunFile> ReadBegunRun(const std::string& path);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_RUN_FILE_H_
