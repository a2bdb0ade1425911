// The step directories of a checkpoint directory: which are committed, and removing what is no longer needed.
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

// A step directory whose manifest is invalid, or cannot be read, and why, in one line.
struct CheckpointProblem {
  std::string path;
  std::string reason;
  bool unreadable = false;  // nothing is known against the checkpoint
};

// ("checkpoints", 100) -> "checkpoints/step-00000100".
std::string StepDirectory(const std::string& dir, int64_t step);

// Where the shards of a checkpoint are written until the commit renames it to `step_dir`:
// ("checkpoints/step-00000100", 7) -> "checkpoints/.step-00000100.generation-7.partial". No two generations share one.
std::string PartialDirectory(const std::string& step_dir, uint64_t generation);

// In all of these what cannot be looked at (EIO, ESTALE) is not absent, but an error that names it, and nothing is
// removed for it.

absl::StatusOr<bool> IsCommitted(const std::string& dir, int64_t step);

// The committed checkpoints in `dir`, newest first; a missing directory has none. Step directories without a manifest
// are not committed and left out; those with a bad one, or one that cannot be read, go to `problems`. Without that bad
// ones are left out, and one that cannot be read is an error.
absl::StatusOr<std::vector<CommittedCheckpoint>> ListCheckpoints(const std::string& dir,
                                                                 std::vector<CheckpointProblem>* problems = nullptr);

// The steps in `dir` that have a manifest, ascending, by a look at names alone.
absl::StatusOr<std::vector<int64_t>> ListCommittedSteps(const std::string& dir);

// Removes the checkpoint of `step`: it becomes a partial directory of generation 0 first, so that an interrupted
// removal leaves nothing that looks committed, and what the next clean-up removes (ListPartials). If it also holds what
// is not a checkpoint's, that stays, and so does the directory, in its place: the manifest goes first there. OK if
// there is none.
absl::Status RemoveCheckpoint(const std::string& dir, int64_t step);

// Removes what an interrupted removal by an earlier release left: step directories without a manifest that hold shards
// alone, in which nothing has changed since `before`. One that gets a manifest meanwhile stays. What cannot be removed
// stays for the next time.
void RemoveLeftovers(const std::string& dir, absl::Time before);

// The partial directories in `dir` that generations up to `last_generation` left behind.
absl::StatusOr<std::vector<std::string>> ListPartials(const std::string& dir, uint64_t last_generation);
// The largest generation of any partial directory in `dir`; 0 if there is none.
absl::StatusOr<uint64_t> NewestPartialGeneration(const std::string& dir);

// Removes a checkpoint's files from `directory`, and then the directory if nothing else is in it. A symbolic link is
// left alone.
absl::Status RemoveCheckpointFiles(const std::string& directory);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_CATALOG_H_
