// The coordinator's hand on the checkpoint directory: what a run may resume from, and the commit of a manifest.
#ifndef ZEROFLEET_SERVICES_CHECKPOINT_STORE_H_
#define ZEROFLEET_SERVICES_CHECKPOINT_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/fleet.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet {

struct ResumePlan {
  std::vector<CheckpointCandidate> candidates;  // newest first
  bool may_fall_back = false;
  uint64_t newest_generation = 0;  // of any candidate; the run's own must be larger
  int64_t newest_unix_seconds = 0;
  std::vector<std::string> unreadable;  // step directories whose manifest cannot be believed
  std::vector<std::string> notices;  // one line for each checkpoint whose manifest cannot be believed
};

// `resume` is "auto" (every committed checkpoint in `dir`), "none", or the path of one step directory, which must hold
// a valid manifest. DataLoss if there are checkpoints but none with a valid manifest: a run never begins anew by itself
// where there is something to resume.
absl::StatusOr<ResumePlan> PlanResume(const std::string& resume, const std::string& dir);

// Commits `manifest` in its step directory under its configuration's checkpoint.dir, then removes the oldest ones
// beyond checkpoint.keep. The step directory.
absl::StatusOr<std::string> CommitCheckpoint(v1::CheckpointManifest manifest, int64_t unix_seconds);

// Renames a damaged step directory to "<name>.damaged", or with a number behind it if that is taken.
absl::Status SetCheckpointAside(const std::string& step_dir);

}  // namespace zerofleet

#endif  // ZEROFLEET_SERVICES_CHECKPOINT_STORE_H_
