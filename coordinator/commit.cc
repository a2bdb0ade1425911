// Collecting shards into one manifest; see commit.h.
#include "coordinator/commit.h"

#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/committed.h"
#include "coordinator/ending.h"
#include "coordinator/failed_save.h"
#include "coordinator/outlived_commit.h"
#include "coordinator/recovery.h"
#include "coordinator/view.h"

namespace zerofleet::coordinator {
namespace {

using google::protobuf::util::MessageDifferencer;

// A rank saves only once its last save is settled, so at most one commit is under way while the next save is written.
constexpr size_t kMostPendingCommits = 2;

// The digest of the manifest that the run's steps continue from, its previous commit or what it loaded; empty: there is
// none, or its digest is not known.
std::string DigestBefore(const Fleet& fleet) {
  const std::vector<CheckpointCandidate>& candidates = fleet.parameters.candidates;
  return fleet.loading.candidate < candidates.size() ? candidates[fleet.loading.candidate].digest : "";
}

// The manifest all shards agree on, with their files in rank order. Each file holds what its rank owns (CheckShard), so
// together they hold each element once.
absl::StatusOr<v1::CheckpointManifest> Assemble(const Fleet& fleet, int64_t step, const PendingCommit& commit) {
  if (commit.differs) {
    return absl::InternalError(absl::StrCat("ranks ", *commit.described_by, " and ", *commit.differs, " describe step ",
                                            step, " differently"));
  }
  v1::CheckpointManifest manifest = commit.manifest;
  manifest.set_generation(fleet.generation);
  *manifest.mutable_config() = fleet.parameters.config;
  if (const auto first = commit.shards.find(0); first != commit.shards.end() && first->second.has_data()) {
    *manifest.mutable_data() = first->second.data();
    *manifest.mutable_environment() = first->second.environment();
  }
  if (manifest.has_receipt()) manifest.mutable_receipt()->set_previous_xxh3_128(DigestBefore(fleet));
  for (const auto& [rank, shard] : commit.shards) *manifest.add_files() = shard.file();
  return manifest;
}

int64_t ElementsOf(const v1::CheckpointManifest& manifest) {
  return manifest.tensors().empty() ? 0 : manifest.tensors(manifest.tensors_size() - 1).flat_end();
}

// Whether this run may save `shard`'s step now. This bounds what messages can make the coordinator keep.
std::string WhatIsWrongWithTheSave(const Fleet& fleet, const v1::ShardWritten& shard) {
  const v1::Config& config = fleet.parameters.config;
  if (shard.step() < fleet.training.start_step || shard.step() > config.steps()) {
    return absl::StrCat("the run is of steps ", fleet.training.start_step, " to ", config.steps());
  }
  if (shard.retry() < 0 || shard.retry() >= kMostLastSaveTries) {
    return absl::StrCat("it is try ", shard.retry() + 1, " of ", kMostLastSaveTries);
  }
  if (fleet.saving.commits.contains(shard.step()) || fleet.saving.commits.size() < kMostPendingCommits) return "";
  return absl::StrCat(fleet.saving.commits.size(), " earlier ones are not committed yet");
}

// Compares what a worker says about its shard with this run, so that no manifest is taken from a worker that trains
// something else.
std::string WhatIsWrongWithTheShard(const Fleet& fleet, const Member& member, const v1::ShardWritten& shard) {
  const v1::Config& config = fleet.parameters.config;
  const v1::CheckpointManifest& manifest = shard.manifest();
  if (manifest.step() != shard.step() || manifest.files_size() != 0) {
    return absl::StrCat("its manifest is of step ", manifest.step(), " with ", manifest.files_size(), " files");
  }
  if (shard.config_digest() != fleet.config_digest) return "it has another configuration";
  if (!manifest.receipt().previous_xxh3_128().empty() || manifest.has_config() || manifest.has_data() ||
      manifest.environment_size() > 0)
    return "its manifest has what the coordinator adds";
  if (manifest.world_size() != fleet.world_size() || manifest.zero_stage() != config.parallel().zero_stage()) {
    return absl::StrCat("it has world size ", manifest.world_size(), " and stage ", manifest.zero_stage());
  }
  if (manifest.team() != fleet.view->team) return absl::StrCat("it has teams of ", manifest.team());
  if (shard.file().rank() != member.rank) return absl::StrCat("it names rank ", shard.file().rank());
  if (ElementsOf(manifest) != fleet.parameters.elements) {
    return absl::StrCat("its tensors have ", ElementsOf(manifest), " elements");
  }
  const bool owned = RangesOf(shard.file().ranges()) == fleet.view->OwnedBy(member.rank);
  return owned ? "" : "it holds other ranges than that rank owns";
}

absl::Status CheckShard(const Fleet& fleet, const Member& member, const v1::ShardWritten& shard) {
  std::string wrong = WhatIsWrongWithTheSave(fleet, shard);
  if (wrong.empty() && shard.ok()) wrong = WhatIsWrongWithTheShard(fleet, member, shard);
  if (wrong.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the shard of step ", shard.step(), " from ", NameOf(member), " was refused: ", wrong));
}

// Keeps the shard, and its manifest only if it is the first: the others are the same, and the tables of thousands of
// ranks would be too much to keep. Data and environment are taken from rank 0. False for a duplicate.
bool Keep(PendingCommit& commit, int rank, const v1::ShardWritten& shard) {
  const auto [kept, added] = commit.shards.emplace(rank, shard);
  if (!added) return false;
  kept->second.clear_manifest();
  if (rank != 0) {
    kept->second.clear_data();
    kept->second.clear_environment();
  }
  if (!shard.ok()) return true;
  if (!commit.described_by) {
    commit.described_by = rank;
    commit.manifest = shard.manifest();
  } else if (!commit.differs && !MessageDifferencer::Equals(commit.manifest, shard.manifest())) {
    commit.differs = rank;
  }
  return true;
}

}  // namespace

void OnShardWritten(Fleet& fleet, Member& member, const v1::ShardWritten& shard, double now) {
  if (shard.step() <= fleet.saving.committed_by_run) {  // a duplicate
    return fleet.Send(member.id, OutcomeOf(shard.step(), shard.retry(), true, ""), "that step is committed already");
  }
  if (IsOfAFailedSave(fleet, member, shard)) return;
  const absl::Status checked = CheckShard(fleet, member, shard);
  if (!checked.ok()) return FailFleet(fleet, checked, member.rank);  // no storage is at fault
  PendingCommit& commit = fleet.saving.commits[shard.step()];
  if (commit.shards.empty()) {
    commit.generation = fleet.generation;
    commit.retry = shard.retry();
    commit.since = now;
  }
  const bool collecting = commit.stage == PendingCommit::Stage::kCollecting;
  if (!collecting || !Keep(commit, member.rank, shard)) return;  // a duplicate
  if (!shard.ok()) NoteFailedShard(commit, member, shard);
  if (static_cast<int>(commit.shards.size()) < fleet.world_size()) return FailIfAShardCannotCome(fleet);
  if (commit.failure) return DiscardFailedSave(fleet, shard.step(), now);
  const absl::StatusOr<v1::CheckpointManifest> manifest = Assemble(fleet, shard.step(), commit);
  if (!manifest.ok()) {
    return FailFleet(
        fleet, Annotate(manifest.status(), absl::StrCat("checkpoint of step ", shard.step(), " was not committed")),
        -1);
  }
  commit.stage = PendingCommit::Stage::kCommitting;
  commit.since = now;
  fleet.Emit(WriteManifest{*manifest},
             absl::StrCat("all ", fleet.world_size(), " shards of step ", shard.step(), " are durable"));
}

void OnManifestWritten(Fleet& fleet, const ManifestWritten& written, double now) {
  if (OnLateAnswer(fleet, written)) {
    if (fleet.phase == Phase::kRecovering) FormViewIfComplete(fleet, now);
    return;
  }
  auto found = fleet.saving.commits.find(written.step);
  if (found == fleet.saving.commits.end() || found->second.stage != PendingCommit::Stage::kCommitting ||
      found->second.generation != written.generation) {
    return;
  }
  if (!written.status.ok()) {
    const std::string text =
        absl::StrCat("checkpoint of step ", written.step, " was not committed: ", written.status.message());
    found->second.failure = {StorageStatus(written.status.code(), text), -1, 0};
    DiscardFailedSave(fleet, written.step, now);
    if (fleet.phase == Phase::kRecovering) FormViewIfComplete(fleet, now);
    return;
  }
  const PendingCommit commit = std::move(found->second);
  fleet.saving.commits.erase(found);
  NoteCommitted(fleet, written, commit);
  fleet.SendToAll(OutcomeOf(written.step, commit.retry, true, ""), "a checkpoint was committed");
  CompleteIfAllFinished(fleet, now);
  if (fleet.phase == Phase::kRecovering) FormViewIfComplete(fleet, now);
  GrowAgain(fleet, now);
}

}  // namespace zerofleet::coordinator
