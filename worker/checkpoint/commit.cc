// Check, write the manifest, rename; see commit.h.
#include "worker/checkpoint/commit.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/kill_point.h"
#include "base/status.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_reader.h"

namespace zerofleet::checkpoint {
namespace {

// Goes by the names in the directory: a manifest that cannot be examined still counts.
absl::Status CheckNotCommitted(const std::string& step_dir) {
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(step_dir));
  if (!there) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(step_dir));
  if (std::find(names.begin(), names.end(), kManifestName) == names.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(step_dir, ": holds a committed checkpoint, which is never overwritten"));
}

// Another process may commit there between any check of the target and the rename, so the rename itself must not
// replace anything.
absl::Status RenameToStep(const std::string& partial_dir, const std::string& step_dir) {
  absl::Status renamed = RenameDirectory(partial_dir, step_dir);
  if (!absl::IsAlreadyExists(renamed)) return renamed;
  ZF_RETURN_IF_ERROR(CheckNotCommitted(step_dir));
  ZF_ASSIGN_OR_RETURN(const PathKind kind, KindOf(step_dir));
  const bool cleared = kind == PathKind::kDirectory && RemoveOne(step_dir).ok();
  if (cleared) renamed = RenameDirectory(partial_dir, step_dir);
  if (!absl::IsAlreadyExists(renamed)) return renamed;
  return absl::FailedPreconditionError(
      absl::StrCat(step_dir, ": is in the way of a commit, which removes nothing; move it elsewhere"));
}

}  // namespace

absl::Status CommitCheckpoint(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                              const TokenizerFiles& tokenizer, const std::function<absl::Status()>& may_commit,
                              std::atomic<int64_t>* read_bytes) {
  ZF_RETURN_IF_ERROR(Annotate(ValidateManifest(manifest), JoinPath(step_dir, kManifestName)));
  ZF_RETURN_IF_ERROR(CheckNotCommitted(step_dir));
  const std::string partial_dir = PartialDirectory(step_dir, manifest.generation());
  ZF_KILL_POINT("commit/before-verify");
  ZF_RETURN_IF_ERROR(VerifyShards(partial_dir, manifest, read_bytes));
  ZF_RETURN_IF_ERROR(WriteTokenizerFiles(partial_dir, tokenizer));
  ZF_RETURN_IF_ERROR(VerifyTokenizerFiles(partial_dir, manifest));
  // The files' names must be durable before a manifest lists them.
  ZF_KILL_POINT("commit/verified");
  ZF_RETURN_IF_ERROR(SyncDirectory(partial_dir));
  ZF_KILL_POINT("commit/shard-names-synced");
  ZF_RETURN_IF_ERROR(WriteFileAtomically(JoinPath(partial_dir, kManifestName), ManifestText(manifest)));
  ZF_KILL_POINT("commit/manifest-written");
  ZF_ASSIGN_OR_RETURN(const FileId written, IdOf(partial_dir));
  if (may_commit) ZF_RETURN_IF_ERROR(may_commit());
  ZF_KILL_POINT("commit/before-rename");
  ZF_RETURN_IF_ERROR(RenameToStep(partial_dir, step_dir));
  ZF_KILL_POINT("commit/renamed");
  const absl::Status durable = SyncDirectory(ParentOf(step_dir));
  // A commit that may not be durable is not reported, so it must not be listed either.
  if (!durable.ok() && !RenameDirectory(step_dir, partial_dir).ok()) {
    const absl::StatusOr<FileId> there = IdOf(step_dir);
    if (there.ok() && *there == written) RemoveCheckpointFiles(step_dir).IgnoreError();
  }
  ZF_KILL_POINT("commit/rename-synced");
  return durable;
}

}  // namespace zerofleet::checkpoint
