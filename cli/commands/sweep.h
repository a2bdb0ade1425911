// The runs of a sweep: the grid's combinations, their names, their outcomes.
#ifndef ZEROFLEET_CLI_COMMANDS_SWEEP_H_
#define ZEROFLEET_CLI_COMMANDS_SWEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/report/terminal.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// One --grid: a key and the values that it takes in turn.
struct GridAxis {
  std::string key;
  std::vector<std::string> values;
};

// Parses "KEY=V1,V2"; commas within [] and {} belong to the value. InvalidArgument for other text, and for a value that
// is given twice.
absl::StatusOr<GridAxis> ParseGridAxis(const std::string& text);

// One run of a sweep: settings such as "optimizer.learning_rate=1e-3", one for each axis, and a name made of them that
// can be a file name. The name has each key's last word, or the whole key if another axis has the same last word.
struct SweepRun {
  std::vector<std::string> settings;
  std::string name;
};
// Every combination; the last axis varies fastest. InvalidArgument for a key that is given twice, and for more than
// kMostSweepRuns runs.
inline constexpr size_t kMostSweepRuns = 1000;
absl::StatusOr<std::vector<SweepRun>> SweepRuns(const std::vector<GridAxis>& axes);

// The outcome of a run according to its report; if `steps` is 0, there is none yet.
struct SweepOutcome {
  int64_t steps = 0;
  bool ended = false;                                           // by itself, not because it was stopped
  double loss = 0, validation_loss = 0, tokens_per_second = 0;  // the newest values; NaN if there is none
};
// InvalidArgument, naming the first key that differs, if the report was written with another configuration than
// `config`, the run's own; only checkpoint.dir may differ. DataLoss if it cannot be read.
absl::StatusOr<SweepOutcome> OutcomeOf(const std::string& report_path, const v1::Config& config);

// A row for each run, the best first: by validation loss if all runs have one, otherwise by loss. Runs that have not
// ended come last.
std::string SweepTable(const std::vector<GridAxis>& axes, const std::vector<SweepRun>& runs,
                       const std::vector<SweepOutcome>& outcomes, const Terminal& terminal);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_SWEEP_H_
