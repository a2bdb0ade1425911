// The step directories of a checkpoint directory: which are committed, committing one, removing old ones.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_CATALOG_H_
#define ZEROFLEET_WORKER_CHECKPOINT_CATALOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet {

struct CommittedCheckpoint {
  std::string path;
  int64_t step;
  v1::CheckpointManifest manifest;
};

// A step directory whose manifest cannot be believed, and why, in one line.
struct CheckpointProblem {
  std::string path;
  std::string reason;
};

// ("checkpoints", 100) -> "checkpoints/step-00000100".
std::string StepDirectory(const std::string& dir, int64_t step);

bool IsCommitted(const std::string& dir, int64_t step);

// The committed checkpoints in `dir`, newest first; a missing directory has none. Step directories without a manifest
// are not committed and left out; those with an invalid one go to `problems`, if given.
absl::StatusOr<std::vector<CommittedCheckpoint>> ListCheckpoints(const std::string& dir,
                                                                 std::vector<CheckpointProblem>* problems = nullptr);

// Makes `step_dir` a committed checkpoint: checks the manifest and that the files it names are there with their
// lengths, then writes manifest.json by write, fsync, rename, fsync of the directory. FailedPrecondition if it is
// committed already.
absl::Status CommitManifest(const std::string& step_dir, const v1::CheckpointManifest& manifest);

// Removes the oldest committed checkpoints beyond the newest `keep`; the newest always stays. The manifest goes
// first, so that an interrupted removal leaves no checkpoint that looks committed; files that are not a checkpoint's
// stay, and then so does their directory.
absl::Status PruneCheckpoints(const std::string& dir, int64_t keep);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_CHECKPOINT_CATALOG_H_
