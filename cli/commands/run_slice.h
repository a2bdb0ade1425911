// Some steps of a run, according to its checkpoints: the checkpoint from which they can be repeated, and the numbers
// that they must give.
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
  std::string base;  // the step directory to resume from; empty: the run's beginning
  int64_t base_step = 0;
  int base_workers = 0;                         // workers that wrote `base`; 0: none did
  std::string receipt;                          // the step directory whose manifest has the receipt
  v1::CheckpointManifest manifest;              // the manifest of `receipt`
  std::map<int64_t, v1::StepNumbers> expected;  // by step, for the requested steps
  // No checkpoint before the steps is known, but the run may have started from one in another directory.
  bool beginning_is_unknown = false;
};

// `checkpoints` is in the order of ListCheckpoints. `from` is the checkpoint to resume from; null: the newest one
// before the steps, or the run's beginning. InvalidArgument if the steps have no receipt, or cannot be repeated on
// their own, for example because the checkpoints show that the configuration or the data changed on the way.
absl::StatusOr<RunSlice> FindSlice(const std::vector<checkpoint::CommittedCheckpoint>& checkpoints,
                                   const StepRange& steps, const checkpoint::CommittedCheckpoint* from = nullptr);

// Returns how many receipts name the manifest of an earlier checkpoint in the list. DataLoss, naming the checkpoint, if
// its receipt contradicts that of an earlier one.
absl::StatusOr<int> CheckReceipts(const std::vector<checkpoint::CommittedCheckpoint>& checkpoints);

// The run's configuration for repeating the slice in `dir` with `workers` (0: as many as wrote the receipt): without
// saves and evaluations, and with the teams that the run's nodes formed. InvalidArgument for another number of workers
// if that would change bits.
absl::StatusOr<v1::Config> SliceConfig(const RunSlice& slice, int workers, const std::string& dir);

// What to add to an error about steps that were repeated by `workers`: the original steps may have been done by another
// number of workers, or may have started from another checkpoint. Empty if neither can be the case.
std::string OtherCauseText(const RunSlice& slice, int workers);

// DataLoss if the bits of a step's numbers differ from those of its receipt.
absl::Status CompareStep(const v1::StepNumbers& expected, const v1::StepNumbers& found);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_RUN_SLICE_H_
