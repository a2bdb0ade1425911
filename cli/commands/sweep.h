// The runs of a sweep: the grid's combinations, their names, what is known of each.
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

// "KEY=V1,V2"; commas within [] and {} are the value's own. InvalidArgument otherwise, or if a value stands there
// twice.
absl::StatusOr<GridAxis> ParseGridAxis(const std::string& text);

// One of its runs: settings such as "optimizer.learning_rate=1e-3", one for each axis, and a name made of them that can
// be a file's. A key is called by its last word there, or in full if another axis has the same one.
struct SweepRun {
  std::vector<std::string> settings;
  std::string name;
};
// Every combination, the last axis the fastest. InvalidArgument for a key that is given twice, or for more than
// kMostSweepRuns.
inline constexpr size_t kMostSweepRuns = 1000;
absl::StatusOr<std::vector<SweepRun>> SweepRuns(const std::vector<GridAxis>& axes);

// What a run's report says; `steps` 0: nothing yet.
struct SweepOutcome {
  int64_t steps = 0;
  bool ended = false;                                           // by itself, and not because it was stopped
  double loss = 0, validation_loss = 0, tokens_per_second = 0;  // the last ones; NaN: none
};
// InvalidArgument, naming the first key that differs, if the report is that of another configuration than `config`, the
// run's own; only checkpoint.dir may differ. DataLoss if it cannot be read.
absl::StatusOr<SweepOutcome> OutcomeOf(const std::string& report_path, const v1::Config& config);

// One row for each run: the best first, by validation loss where all have one, else by loss; what has not ended last.
std::string SweepTable(const std::vector<GridAxis>& axes, const std::vector<SweepRun>& runs,
                       const std::vector<SweepOutcome>& outcomes, const Terminal& terminal);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_SWEEP_H_
