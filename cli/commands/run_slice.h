// Some steps of a run, as its checkpoints tell of them: where they can be done again from, and what they must give.
#ifndef ZEROFLEET_CLI_COMMANDS_RUN_SLICE_H_
#define ZEROFLEET_CLI_COMMANDS_RUN_SLICE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/commands/step_range.h"
#include "worker/checkpoint/catalog.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct RunSlice {
  std::string base;  // the step directory that the steps go on from; empty: they begin the run
  int64_t base_step = 0;
  int base_workers = 0;                         // that wrote it; 0: none did
  std::string receipt;                          // the step directory whose manifest has the receipt
  v1::CheckpointManifest manifest;              // that one
  std::map<int64_t, v1::StepNumbers> expected;  // of the steps that are asked for
  // No checkpoint before the steps is known, but the run may have begun with one that lies elsewhere.
  bool beginning_is_unknown = false;
};

// `checkpoints` as ListCheckpoints gives them. `from`: what the steps go on from; nothing: the newest checkpoint before
// them, or the run's beginning. InvalidArgument if they have no receipt, or cannot be done again alone: also where the
// configuration or the data changed on the way, as far as the checkpoints tell.
absl::StatusOr<RunSlice> FindSlice(const std::vector<checkpoint::CommittedCheckpoint>& checkpoints,
                                   const StepRange& steps, const checkpoint::CommittedCheckpoint* from = nullptr);

// DataLoss, naming it, where the receipt of a checkpoint contradicts that of an earlier one. How many name the manifest
// before them in the list.
absl::StatusOr<int> CheckReceipts(const std::vector<checkpoint::CommittedCheckpoint>& checkpoints);

// The run's configuration for doing the slice again in `dir` with `workers` (0: as many as there were): nothing is
// saved or evaluated, and its teams are those of the run's nodes. InvalidArgument for another number of workers where
// that changes bits.
absl::StatusOr<v1::Config> SliceConfig(const RunSlice& slice, int workers, const std::string& dir);

// What to add to an error about steps done by `workers`: that they may have been done by another number, which the run
// had at the slice's other end, or have begun elsewhere. Empty where neither can be.
std::string OtherCauseText(const RunSlice& slice, int workers);

// DataLoss for a step that has other numbers than its receipt.
absl::Status CompareStep(const v1::StepNumbers& expected, const v1::StepNumbers& found);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_RUN_SLICE_H_
