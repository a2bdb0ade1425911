// Listing and committing through the checkpoint catalog; see checkpoint_store.h.
#include "services/checkpoint_store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"

namespace zerofleet {
namespace {

void AddCandidate(ResumePlan& plan, const std::string& path, const v1::CheckpointManifest& manifest) {
  plan.candidates.push_back({path, manifest.step()});
  plan.newest_generation = std::max(plan.newest_generation, static_cast<uint64_t>(manifest.generation()));
  plan.newest_unix_seconds = std::max(plan.newest_unix_seconds, static_cast<int64_t>(manifest.committed_unix_seconds()));
}

}  // namespace

absl::StatusOr<ResumePlan> PlanResume(const std::string& resume, const std::string& dir) {
  ResumePlan plan;
  if (resume == "none") return plan;
  if (resume != "auto") {
    ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(resume));
    AddCandidate(plan, resume, manifest);
    return plan;
  }
  plan.may_fall_back = true;
  std::vector<CheckpointProblem> problems;
  ZF_ASSIGN_OR_RETURN(std::vector<CommittedCheckpoint> committed, ListCheckpoints(dir, &problems));
  for (const CommittedCheckpoint& checkpoint : committed) AddCandidate(plan, checkpoint.path, checkpoint.manifest);
  for (const CheckpointProblem& problem : problems) {
    plan.unreadable.push_back(problem.path);
    plan.notices.push_back(absl::StrCat("checkpoint ", problem.path, " is not used: ", problem.reason));
  }
  if (committed.empty() && !problems.empty()) {
    return absl::DataLossError(absl::StrCat(plan.notices.back(), "; no other checkpoint is left in ", dir,
                                            "; --resume none begins anew"));
  }
  return plan;
}

absl::StatusOr<std::string> CommitCheckpoint(v1::CheckpointManifest manifest, int64_t unix_seconds) {
  manifest.set_committed_unix_seconds(unix_seconds);
  const v1::CheckpointConfig& config = manifest.config().checkpoint();
  std::string path = StepDirectory(config.dir(), manifest.step());
  ZF_RETURN_IF_ERROR(CommitManifest(path, manifest));
  ZF_RETURN_IF_ERROR(PruneCheckpoints(config.dir(), config.keep()));
  return path;
}

absl::Status SetCheckpointAside(const std::string& step_dir) {
  std::string target = absl::StrCat(step_dir, ".damaged");
  for (int number = 2; FileExists(target); ++number) target = absl::StrCat(step_dir, ".damaged-", number);
  if (std::rename(step_dir.c_str(), target.c_str()) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(step_dir, ": cannot rename to ", target, ": ", std::strerror(errno)));
}

}  // namespace zerofleet
