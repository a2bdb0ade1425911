// Step directories; see catalog.h.
#include "worker/checkpoint/catalog.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/kill_point.h"
#include "base/status.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/step_name.h"
#include "worker/checkpoint/tokenizer_files.h"

namespace zerofleet::checkpoint {
namespace {

constexpr char kPartialMiddle[] = ".generation-", kPartialEnd[] = ".partial";

// The generation in a partial directory's name; nothing for any other name.
std::optional<uint64_t> GenerationOfPartial(const std::string& name) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, ".") || !absl::ConsumeSuffix(&rest, kPartialEnd)) return std::nullopt;
  const std::pair<std::string, std::string> parts = absl::StrSplit(rest, kPartialMiddle);
  uint64_t generation = 0;
  if (StepOfName(parts.first) < 0 || !absl::SimpleAtoi(parts.second, &generation)) return std::nullopt;
  return generation;
}

absl::StatusOr<std::vector<std::string>> ListIfThere(const std::string& dir) {
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(dir));
  if (!there) return std::vector<std::string>();
  return ListDirectory(dir);
}

bool IsOfACheckpoint(const std::string& name) {
  const std::string whole(absl::StripSuffix(name, ".tmp"));
  return IsShardFileName(name) || IsTokenizerFileName(whole) || whole == kManifestName;
}

// Renames a step directory so that it is never committed and the clean-up removes it; returns the new path once the
// name is durable.
absl::StatusOr<std::string> SetApart(const std::string& step_dir) {
  std::string apart = PartialDirectory(step_dir, 0);
  ZF_KILL_POINT("prune/before");
  absl::Status renamed = RenameDirectory(step_dir, apart);
  if (absl::IsAlreadyExists(renamed)) {  // left by an earlier removal
    ZF_RETURN_IF_ERROR(RemoveCheckpointFiles(apart));
    renamed = RenameDirectory(step_dir, apart);
  }
  ZF_RETURN_IF_ERROR(renamed);
  ZF_KILL_POINT("prune/renamed");
  ZF_RETURN_IF_ERROR(SyncDirectory(ParentOf(step_dir)));
  ZF_KILL_POINT("prune/rename-synced");
  return apart;
}

// Whether `step_dir` is a leftover. A user may be copying a checkpoint into place: then something in it has changed
// after `before`.
bool IsLeftover(const std::string& step_dir, absl::Time before) {
  if (IsSymlink(step_dir) || !IsDirectory(step_dir)) return false;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(step_dir);
  if (!names.ok() || std::none_of(names->begin(), names->end(), IsShardFileName)) return false;
  const auto is_known = [](const std::string& name) { return IsShardFileName(name) || IsTokenizerFileName(name); };
  if (!std::all_of(names->begin(), names->end(), is_known)) return false;
  const auto is_old = [&](const std::string& path) {
    struct stat info;
    return lstat(path.c_str(), &info) == 0 && absl::TimeFromTimespec(info.st_mtim) < before;
  };
  return is_old(step_dir) && std::all_of(names->begin(), names->end(),
                                         [&](const std::string& name) { return is_old(JoinPath(step_dir, name)); });
}

absl::Status RemoveLeftover(const std::string& step_dir) {
  ZF_ASSIGN_OR_RETURN(const std::string apart, SetApart(step_dir));
  ZF_KILL_POINT("prune/leftover-apart");
  const absl::StatusOr<bool> committed = IsThere(JoinPath(apart, kManifestName));
  if (committed.ok() && !*committed) return RemoveCheckpointFiles(apart);
  ZF_RETURN_IF_ERROR(RenameDirectory(apart, step_dir));  // it was no leftover, or that is not known
  return SyncDirectory(ParentOf(step_dir));
}

}  // namespace

std::string StepDirectory(const std::string& dir, int64_t step) { return JoinPath(dir, StepName(step)); }

std::string PartialDirectory(const std::string& step_dir, uint64_t generation) {
  return JoinPath(ParentOf(step_dir),
                  absl::StrCat(".", NameOfDirectory(step_dir), kPartialMiddle, generation, kPartialEnd));
}

absl::StatusOr<bool> IsCommitted(const std::string& dir, int64_t step) {
  return IsThere(JoinPath(StepDirectory(dir, step), kManifestName));
}

absl::StatusOr<std::vector<CommittedCheckpoint>> ListCheckpoints(const std::string& dir,
                                                                 std::vector<CheckpointProblem>* problems) {
  std::vector<CommittedCheckpoint> committed;
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(dir));
  for (const std::string& name : names) {
    const int64_t step = StepOfName(name);
    const std::string path = JoinPath(dir, name);
    if (step < 0) continue;
    const absl::StatusOr<bool> there = IsThere(JoinPath(path, kManifestName));
    if (there.ok() && !*there) continue;
    std::string digest;
    absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(path, &digest);
    const bool unreadable = absl::IsResourceExhausted(manifest.status());
    if (manifest.ok()) {
      committed.push_back({path, step, *std::move(manifest), std::move(digest)});
    } else if (problems != nullptr) {
      problems->push_back({path, std::string(manifest.status().message()), unreadable});
    } else if (unreadable) {
      return manifest.status();
    }
  }
  std::sort(committed.begin(), committed.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return committed;
}

absl::StatusOr<std::vector<int64_t>> ListCommittedSteps(const std::string& dir) {
  std::vector<int64_t> steps;
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(dir));
  for (const std::string& name : names) {
    const int64_t step = StepOfName(name);
    if (step < 0) continue;
    ZF_ASSIGN_OR_RETURN(const bool committed, IsCommitted(dir, step));
    if (committed) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

absl::Status RemoveCheckpoint(const std::string& dir, int64_t step) {
  const std::string step_dir = StepDirectory(dir, step);
  ZF_ASSIGN_OR_RETURN(const PathKind kind, KindOf(step_dir));
  if (kind != PathKind::kDirectory) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(step_dir));
  if (!std::all_of(names.begin(), names.end(), IsOfACheckpoint)) return RemoveCheckpointFiles(step_dir);
  ZF_ASSIGN_OR_RETURN(const std::string apart, SetApart(step_dir));
  return RemoveCheckpointFiles(apart);
}

void RemoveLeftovers(const std::string& dir, absl::Time before) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(dir);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(dir, name);
    if (StepOfName(name) >= 0 && IsLeftover(path, before)) RemoveLeftover(path).IgnoreError();
  }
}

absl::Status RemoveCheckpointFiles(const std::string& directory) {
  ZF_ASSIGN_OR_RETURN(const PathKind kind, KindOf(directory));
  if (kind != PathKind::kDirectory) return absl::OkStatus();
  const absl::Status removed = RemoveOne(JoinPath(directory, kManifestName));
  if (!absl::IsNotFound(removed)) {
    ZF_RETURN_IF_ERROR(removed);
    ZF_KILL_POINT("prune/manifest-removed");
    ZF_RETURN_IF_ERROR(SyncDirectory(directory));
  }
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  bool empty = true;
  for (const std::string& name : names) {
    if (IsOfACheckpoint(name)) {
      ZF_RETURN_IF_ERROR(RemoveOne(JoinPath(directory, name)));
      ZF_KILL_POINT("prune/shard-removed");
    } else {
      empty = false;
    }
  }
  return empty ? RemoveOne(directory) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListPartials(const std::string& dir, uint64_t last_generation) {
  std::vector<std::string> partials;
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(dir));
  for (const std::string& name : names) {
    const std::optional<uint64_t> generation = GenerationOfPartial(name);
    if (generation && *generation <= last_generation) partials.push_back(JoinPath(dir, name));
  }
  return partials;
}

absl::StatusOr<uint64_t> NewestPartialGeneration(const std::string& dir) {
  uint64_t newest = 0;
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(dir));
  for (const std::string& name : names) newest = std::max(newest, GenerationOfPartial(name).value_or(0));
  return newest;
}

}  // namespace zerofleet::checkpoint
