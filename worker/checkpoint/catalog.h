// The step directories of a checkpoint directory: which are committed, and removal of those no longer needed.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_CATALOG_H_
#define ZEROFLEET_WORKER_CHECKPOINT_CATALOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

struct CommittedCheckpoint {
  std::string path;
  int64_t step;
  v1::CheckpointManifest manifest;
  std::string digest;  // ManifestDigest
};

// A step directory whose manifest is invalid or cannot be read, and the reason in one line.
struct CheckpointProblem {
  std::string path;
  std::string reason;
  bool unreadable = false;  // the manifest cannot be read; the checkpoint may be valid
};

// ("checkpoints", 100) -> "checkpoints/step-00000100".
std::string StepDirectory(const std::string& dir, int64_t step);

// The directory in which a checkpoint's shards are written until the commit renames it to `step_dir`:
// ("checkpoints/step-00000100", 7) -> "checkpoints/.step-00000100.generation-7.partial". No two generations share one.
std::string PartialDirectory(const std::string& step_dir, uint64_t generation);

// In all functions below, a path that cannot be examined (EIO, ESTALE) does not count as absent: it is an error that
// names the path, and nothing is removed.

absl::StatusOr<bool> IsCommitted(const std::string& dir, int64_t step);

// The committed checkpoints in `dir`, newest first; a missing directory has none. Step directories without a manifest
// are not committed and are left out. Those whose manifest is bad or cannot be read go to `problems`; if that is null,
// bad ones are left out, and one that cannot be read is an error.
absl::StatusOr<std::vector<CommittedCheckpoint>> ListCheckpoints(const std::string& dir,
                                                                 std::vector<CheckpointProblem>* problems = nullptr);

// The steps in `dir` that have a manifest, ascending; looks at names alone.
absl::StatusOr<std::vector<int64_t>> ListCommittedSteps(const std::string& dir);

// Removes the checkpoint of `step`. The directory first becomes a partial one of generation 0, so that an interrupted
// removal leaves nothing that looks committed, and the next clean-up removes the rest (ListPartials). If it also holds
// files that are not a checkpoint's, those and the directory stay in place; there the manifest is removed first. OK if
// there is no such checkpoint.
absl::Status RemoveCheckpoint(const std::string& dir, int64_t step);

// Removes what an interrupted removal by an earlier release left: step directories without a manifest that hold only
// shards and tokenizer files, and in which nothing has changed since `before`. A directory that gets a manifest
// meanwhile stays. What cannot be removed stays until the next call.
void RemoveLeftovers(const std::string& dir, absl::Time before);

// The partial directories in `dir` that generations up to `last_generation` left behind.
absl::StatusOr<std::vector<std::string>> ListPartials(const std::string& dir, uint64_t last_generation);
// The largest generation of any partial directory in `dir`; 0 if there is none.
absl::StatusOr<uint64_t> NewestPartialGeneration(const std::string& dir);

// Removes a checkpoint's files from `directory`, and then the directory if it is empty. A symbolic link is left alone.
absl::Status RemoveCheckpointFiles(const std::string& directory);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_CATALOG_H_
