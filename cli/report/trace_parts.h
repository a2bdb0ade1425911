// The parts of a trace, one of each worker (worker/trainer/step_trace.h), joined into the file that people open.
#ifndef ZEROFLEET_CLI_REPORT_TRACE_PARTS_H_
#define ZEROFLEET_CLI_REPORT_TRACE_PARTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace zerofleet::cli {

class TraceParts {
 public:
  // `file` will hold steps `first` to `last`; workers write `parts`, of which none is left from an earlier run.
  // InvalidArgument if the file's directory is missing.
  static absl::StatusOr<TraceParts> Begin(std::string file, int64_t first, int64_t last,
                                          std::vector<std::string> parts);

  int64_t last_step() const { return last_; }

  // Takes the parts that have come and writes the file anew if there are any; a line about it for people, or, at the
  // run's end, that there has been none. Empty if nothing has changed.
  std::string Join(bool at_the_end);

 private:
  TraceParts(std::string file, int64_t first, int64_t last, std::vector<std::string> parts)
      : file_(std::move(file)), first_(first), last_(last), parts_(std::move(parts)) {}

  std::string file_;
  int64_t first_, last_;
  std::vector<std::string> parts_;
  std::map<std::string, nlohmann::ordered_json> taken_;  // by path; the newest of each
};

// The parts as one document, whose first span begins at 0.
nlohmann::ordered_json JoinedTrace(const std::map<std::string, nlohmann::ordered_json>& parts);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_TRACE_PARTS_H_
