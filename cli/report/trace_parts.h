// Joins the parts of a trace, one per worker (worker/trainer/step_trace.h), into the file that people open.
#ifndef ZEROFLEET_CLI_REPORT_TRACE_PARTS_H_
#define ZEROFLEET_CLI_REPORT_TRACE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::cli {

// One worker's part, kept as text: parsed, it would take ten times the memory.
struct TracePart {
  std::string text;
  size_t begin = 0, end = 0;  // the range of its event lines, each but the last with a comma
  int64_t origin_unix_us = 0, dropped = 0;
};

class TraceParts {
 public:
  // `file` will hold steps `first` to `last`; workers write the files `parts`. Removes parts that an earlier run has
  // left. InvalidArgument if `file` cannot be written, or is none that may be replaced (ReplaceableFile).
  static absl::StatusOr<TraceParts> Begin(std::string file, int64_t first, int64_t last,
                                          std::vector<std::string> parts);

  // To be called after each step of the run. After the step that follows the last traced one, joins the parts that
  // exist and removes them, since they take room that checkpoints need. Returns a line about it for people; empty if
  // there is nothing to say.
  std::string StepDone(int64_t step);
  // To be called at the run's end: joins parts that have come since, and tries again to write a file that could not be
  // written before. Returns a line also if the run did not reach the traced steps.
  std::string End();

  // After End: ResourceExhausted or DataLoss, in one line, if the file does not contain all that the run has traced.
  const absl::Status& status() const { return status_; }

 private:
  TraceParts(std::string file, int64_t first, int64_t last, std::vector<std::string> parts)
      : file_(std::move(file)), first_(first), last_(last), parts_(std::move(parts)) {}

  absl::StatusOr<std::string> Join();
  std::string StepsText() const;

  std::string file_;
  int64_t first_, last_;
  std::vector<std::string> parts_;
  int64_t first_done_ = 0;                   // the first traced step that this run has done; 0: none
  bool last_done_ = false, written_ = true;  // `file_` has all of `taken_`
  absl::Status status_;
  std::map<std::string, TracePart> taken_;  // by path; each part's newest version
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_TRACE_PARTS_H_
