// A directory with a manifest is a step directory; see checkpoint_path.h.
#include "cli/commands/checkpoint_path.h"

#include <filesystem>
#include <ostream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/step_name.h"

namespace zerofleet::cli {

absl::StatusOr<std::string> ResolveCheckpoint(const std::string& path, std::ostream* warnings) {
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(path));
  if (!there || !IsDirectory(path)) return absl::NotFoundError(absl::StrCat(path, ": no such checkpoint directory"));
  ZF_ASSIGN_OR_RETURN(const bool committed_here, IsThere(JoinPath(path, checkpoint::kManifestName)));
  if (committed_here) return path;
  std::vector<checkpoint::CheckpointProblem> problems;
  ZF_ASSIGN_OR_RETURN(const std::vector<checkpoint::CommittedCheckpoint> committed,
                      checkpoint::ListCheckpoints(path, &problems));
  for (const checkpoint::CheckpointProblem& problem : problems) {  // an unreadable checkpoint may be the newest
    if (problem.unreadable) return absl::ResourceExhaustedError(problem.reason);
  }
  for (const checkpoint::CheckpointProblem& problem : problems) {
    if (!committed.empty() && checkpoint::StepOfDirectory(problem.path) < committed.front().step) continue;
    if (committed.empty() || warnings == nullptr) return absl::DataLossError(problem.reason);
    *warnings << problem.reason << "; step " << committed.front().step << ", the newest that is whole, is used\n";
  }
  if (!committed.empty()) return committed.front().path;
  return absl::NotFoundError(
      absl::StrCat(path, ": no committed checkpoint (no ", checkpoint::kManifestName, ", here or in a step-* below)"));
}

absl::Status CheckNoStepDirectory(const std::string& dir) {
  ZF_ASSIGN_OR_RETURN(const bool committed_here, IsThere(JoinPath(dir, checkpoint::kManifestName)));
  if (!committed_here) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(dir, ": is a step directory; name the directory that holds it, the run's checkpoint.dir"));
}

absl::Status CheckOutsideCheckpoint(const std::string& step_dir, const std::string& path) {
  std::error_code none;  // what cannot be resolved is an error of the command itself
  const std::filesystem::path inside = std::filesystem::weakly_canonical(step_dir, none);
  for (std::filesystem::path at = std::filesystem::weakly_canonical(path, none); at.has_relative_path();
       at = at.parent_path()) {
    if (at != inside) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": is in the checkpoint ", step_dir,
                                                   ", and would be deleted with it; name a place outside of it"));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::cli
