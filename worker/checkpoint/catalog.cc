// Step directories; see catalog.h.
#include "worker/checkpoint/catalog.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_format.h"

namespace zerofleet {
namespace {

constexpr char kStepPrefix[] = "step-";

std::string StepName(int64_t step) { return absl::StrFormat("%s%08d", kStepPrefix, step); }

// The step that a directory's name says, or -1.
int64_t StepOfName(const std::string& name) {
  int64_t step = -1;
  if (!absl::StartsWith(name, kStepPrefix)) return -1;
  if (!absl::SimpleAtoi(name.substr(sizeof(kStepPrefix) - 1), &step) || step < 0) return -1;
  return StepName(step) == name ? step : -1;
}

std::string ParentOf(const std::string& path) {
  std::filesystem::path full(path);
  if (!full.has_filename()) full = full.parent_path();  // a trailing slash
  return full.has_parent_path() ? full.parent_path().string() : ".";
}

absl::Status RemoveCheckpoint(const CommittedCheckpoint& checkpoint) {
  ZF_RETURN_IF_ERROR(RemoveTree(JoinPath(checkpoint.path, kManifestName)));
  ZF_RETURN_IF_ERROR(SyncDirectory(checkpoint.path));
  for (const v1::ShardFile& file : checkpoint.manifest.files()) {
    ZF_RETURN_IF_ERROR(RemoveTree(JoinPath(checkpoint.path, file.name())));
  }
  ZF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(checkpoint.path));
  for (const std::string& name : names) {
    // Shards of an earlier try of another world size.
    if (IsShardFileName(name)) ZF_RETURN_IF_ERROR(RemoveTree(JoinPath(checkpoint.path, name)));
  }
  std::error_code not_empty;
  std::filesystem::remove(checkpoint.path, not_empty);
  return absl::OkStatus();
}

}  // namespace

std::string StepDirectory(const std::string& dir, int64_t step) { return JoinPath(dir, StepName(step)); }

bool IsCommitted(const std::string& dir, int64_t step) {
  return FileExists(JoinPath(StepDirectory(dir, step), kManifestName));
}

absl::StatusOr<std::vector<CommittedCheckpoint>> ListCheckpoints(const std::string& dir,
                                                                 std::vector<CheckpointProblem>* problems) {
  std::vector<CommittedCheckpoint> committed;
  if (!FileExists(dir)) return committed;
  ZF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(dir));
  for (const std::string& name : names) {
    const int64_t step = StepOfName(name);
    const std::string path = JoinPath(dir, name);
    if (step < 0 || !FileExists(JoinPath(path, kManifestName))) continue;
    absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(path);
    absl::Status status = manifest.status();
    if (manifest.ok() && manifest->step() != step) {
      status = absl::DataLossError(absl::StrCat(path, ": its manifest is of step ", manifest->step()));
    }
    if (status.ok()) {
      committed.push_back({path, step, *std::move(manifest)});
    } else if (problems != nullptr) {
      problems->push_back({path, std::string(status.message())});
    }
  }
  std::sort(committed.begin(), committed.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return committed;
}

absl::Status CommitManifest(const std::string& step_dir, const v1::CheckpointManifest& manifest) {
  const std::string path = JoinPath(step_dir, kManifestName);
  ZF_RETURN_IF_ERROR(Annotate(ValidateManifest(manifest), path));
  if (FileExists(path)) {
    return absl::FailedPreconditionError(
        absl::StrCat(step_dir, ": holds a committed checkpoint, which is never overwritten"));
  }
  for (const v1::ShardFile& file : manifest.files()) {
    const std::string shard = JoinPath(step_dir, file.name());
    ZF_ASSIGN_OR_RETURN(const int64_t bytes, FileBytes(shard));
    if (bytes != file.bytes()) {
      return absl::DataLossError(
          absl::StrCat(shard, ": ", bytes, " bytes, rank ", file.rank(), " reported ", file.bytes()));
    }
  }
  // The shards' names and the directory's own must be durable before the manifest says that they are.
  ZF_RETURN_IF_ERROR(SyncDirectory(step_dir));
  ZF_RETURN_IF_ERROR(SyncDirectory(ParentOf(step_dir)));
  return WriteFileAtomically(path, ManifestText(manifest));
}

absl::Status PruneCheckpoints(const std::string& dir, int64_t keep) {
  ZF_ASSIGN_OR_RETURN(std::vector<CommittedCheckpoint> committed, ListCheckpoints(dir));
  const size_t kept = static_cast<size_t>(std::max<int64_t>(keep, 1));
  while (committed.size() > kept) {
    ZF_RETURN_IF_ERROR(RemoveCheckpoint(committed.back()));
    committed.pop_back();
  }
  return absl::OkStatus();
}

}  // namespace zerofleet
