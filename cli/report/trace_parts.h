// The parts of a trace, one of each worker (worker/trainer/step_trace.h), joined into the file that people open.
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

// One of them, as text: as the values that it stands for it would take ten times the memory.
struct TracePart {
  std::string text;
  size_t begin = 0, end = 0;  // of the lines of events in it, each but the last with a comma
  int64_t origin_unix_us = 0, dropped = 0;
};

class TraceParts {
 public:
  // `file` will hold steps `first` to `last`; workers write `parts`, of which none is left from an earlier run.
  // InvalidArgument if the file cannot be written, or is none that may be replaced (ReplaceableFile).
  static absl::StatusOr<TraceParts> Begin(std::string file, int64_t first, int64_t last,
                                          std::vector<std::string> parts);

  // The run has done a step: after the one behind the last that is traced, the parts that have come are joined. They
  // are removed then, since they are where checkpoints need the room. A line about it for people; empty if there is
  // nothing to say.
  std::string StepDone(int64_t step);
  // At the run's end: what has come since is joined, too, and what could not be written before is tried again. A line
  // also where the run has not come to the steps.
  std::string End();

  // After End: ResourceExhausted or DataLoss, in one line, if the file does not hold what the run has traced.
  const absl::Status& status() const { return status_; }

 private:
  TraceParts(std::string file, int64_t first, int64_t last, std::vector<std::string> parts)
      : file_(std::move(file)), first_(first), last_(last), parts_(std::move(parts)) {}

  absl::StatusOr<std::string> Join();
  std::string StepsText() const;

  std::string file_;
  int64_t first_, last_;
  std::vector<std::string> parts_;
  int64_t first_done_ = 0;                   // the first of them that this run has done; 0: none
  bool last_done_ = false, written_ = true;  // `file_` has all of `taken_`
  absl::Status status_;
  std::map<std::string, TracePart> taken_;  // by path; the newest of each
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_TRACE_PARTS_H_
