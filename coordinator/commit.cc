// Collecting shards into one manifest; see commit.h.
#include "coordinator/commit.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/ending.h"
#include "coordinator/recovery.h"
#include "coordinator/view.h"

namespace zerofleet::coordinator {
namespace {

using google::protobuf::util::MessageDifferencer;

// A rank saves only once its last save is committed, so that one commit is under way while the next is written.
constexpr size_t kMostPendingCommits = 2;

v1::CoordinatorMessage Outcome(int64_t step, bool committed, const std::string& text) {
  v1::CoordinatorMessage message;
  message.mutable_checkpoint()->set_step(step);
  message.mutable_checkpoint()->set_committed(committed);
  message.mutable_checkpoint()->set_message(text);
  return message;
}

// The save of `step` failed: every rank hears it, then the run ends.
void FailSave(Fleet& fleet, int64_t step, const absl::Status& status, int rank) {
  fleet.SendToAll(Outcome(step, false, std::string(status.message())), "the save failed");
  fleet.commits.erase(step);
  FailFleet(fleet, status, rank);
}

// What went wrong with storage is the data's fault to the user, whatever code the system gave.
absl::Status StorageStatus(const v1::Failure& failure, const std::string& context) {
  absl::Status status = MakeStatus(static_cast<absl::StatusCode>(failure.code()), failure.message());
  bool keeps_code = ExitCode(status) == ExitCode(absl::DataLossError(""));
  return MakeStatus(keeps_code ? status.code() : absl::StatusCode::kDataLoss,
                    absl::StrCat(context, ": ", failure.message()));
}

// The manifest all shards agree on, with their files in rank order. Each file holds what its rank owns (CheckShard), so
// together they hold each element once.
absl::StatusOr<v1::CheckpointManifest> Assemble(const Fleet& fleet, int64_t step, const PendingCommit& commit) {
  v1::CheckpointManifest manifest = commit.shards.begin()->second.manifest();
  for (const auto& [rank, shard] : commit.shards) {
    if (!MessageDifferencer::Equals(manifest, shard.manifest())) {
      return absl::InternalError(absl::StrCat("ranks 0 and ", rank, " describe step ", step, " differently"));
    }
  }
  manifest.set_generation(fleet.generation);
  for (const auto& [rank, shard] : commit.shards) *manifest.add_files() = shard.file();
  return manifest;
}

int64_t ElementsOf(const v1::CheckpointManifest& manifest) {
  return manifest.tensors().empty() ? 0 : manifest.tensors(manifest.tensors_size() - 1).flat_end();
}

// What a worker says of its shard is held against what this run is: a manifest is never taken from a worker that trains
// something else, and no message makes the coordinator keep more than it needs.
absl::Status CheckShard(const Fleet& fleet, const Member& member, const v1::ShardWritten& shard) {
  const v1::Config& config = fleet.parameters.config;
  const v1::CheckpointManifest& manifest = shard.manifest();
  std::string wrong;
  if (shard.step() < fleet.start_step || shard.step() > config.steps()) {
    wrong = absl::StrCat("the run is of steps ", fleet.start_step, " to ", config.steps());
  } else if (!fleet.commits.contains(shard.step()) && fleet.commits.size() >= kMostPendingCommits) {
    wrong = absl::StrCat(fleet.commits.size(), " earlier ones are not committed yet");
  } else if (manifest.step() != shard.step() || manifest.files_size() != 0) {
    wrong = absl::StrCat("its manifest is of step ", manifest.step(), " with ", manifest.files_size(), " files");
  } else if (!MessageDifferencer::Equals(manifest.config(), config)) {
    wrong = "it has another configuration";
  } else if (manifest.world_size() != fleet.world_size() || manifest.zero_stage() != config.parallel().zero_stage()) {
    wrong = absl::StrCat("it has world size ", manifest.world_size(), " and stage ", manifest.zero_stage());
  } else if (manifest.team() != fleet.view->team) {
    wrong = absl::StrCat("it has teams of ", manifest.team());
  } else if (shard.file().rank() != member.rank) {
    wrong = absl::StrCat("it names rank ", shard.file().rank());
  } else if (ElementsOf(manifest) != fleet.view->partition.TotalElements()) {
    wrong = absl::StrCat("its tensors have ", ElementsOf(manifest), " elements");
  } else if (RangesOf(shard.file().ranges()) != fleet.view->OwnedBy(member.rank)) {
    wrong = "it holds other ranges than that rank owns";
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the shard of step ", shard.step(), " from ", NameOf(member), " was refused: ", wrong));
}

v1::Event CheckpointEventOf(const ManifestWritten& written, const PendingCommit& commit) {
  v1::Event event;
  v1::CheckpointEvent& checkpoint = *event.mutable_checkpoint();
  checkpoint.set_step(written.step);
  checkpoint.set_path(written.committed.path);
  for (const auto& [rank, shard] : commit.shards) {
    checkpoint.set_bytes(checkpoint.bytes() + shard.file().bytes());
    checkpoint.set_stall_seconds(std::max(checkpoint.stall_seconds(), shard.stall_seconds()));
    checkpoint.set_write_seconds(std::max(checkpoint.write_seconds(), shard.write_seconds()));
  }
  return event;
}

// What a recovery goes back to: the newest first, and as many as there are on storage.
void KeepCandidate(Fleet& fleet, const ManifestWritten& written) {
  std::vector<CheckpointCandidate>& candidates = fleet.parameters.candidates;
  candidates.insert(candidates.begin(), {written.committed.path, written.step, fleet.team});
  const int64_t keep = std::max<int64_t>(1, fleet.parameters.config.checkpoint().keep());
  if (static_cast<int64_t>(candidates.size()) > keep) candidates.resize(keep);
  fleet.parameters.may_fall_back = true;
}

}  // namespace

void OnShardWritten(Fleet& fleet, Member& member, const v1::ShardWritten& shard) {
  if (shard.step() <= fleet.committed_by_run) {  // a duplicate
    return fleet.Send(member.id, Outcome(shard.step(), true, ""), "that step is committed already");
  }
  if (!shard.ok()) {
    std::string context = absl::StrCat(NameOf(member), " could not write its shard of step ", shard.step());
    v1::Failure failure = shard.failure();
    failure.set_message(absl::StrCat(failure.message(), "; ", LastCommitText(fleet)));
    return FailSave(fleet, shard.step(), StorageStatus(failure, context), member.rank);
  }
  const absl::Status checked = CheckShard(fleet, member, shard);
  if (!checked.ok()) return FailSave(fleet, shard.step(), checked, member.rank);
  PendingCommit& commit = fleet.commits[shard.step()];
  if (!commit.shards.emplace(member.rank, shard).second) return;  // a duplicate
  if (static_cast<int>(commit.shards.size()) < fleet.world_size()) return FailIfAShardCannotCome(fleet);
  absl::StatusOr<v1::CheckpointManifest> manifest = Assemble(fleet, shard.step(), commit);
  if (!manifest.ok()) {
    return FailSave(
        fleet, shard.step(),
        Annotate(manifest.status(), absl::StrCat("checkpoint of step ", shard.step(), " was not committed")), -1);
  }
  commit.writing = true;
  fleet.Emit(WriteManifest{*manifest},
             absl::StrCat("all ", fleet.world_size(), " shards of step ", shard.step(), " are durable"));
}

void OnManifestWritten(Fleet& fleet, const ManifestWritten& written, double now) {
  auto found = fleet.commits.find(written.step);
  if (found == fleet.commits.end() || !found->second.writing) return;
  if (!written.status.ok()) {
    v1::Failure failure;
    failure.set_code(static_cast<int>(written.status.code()));
    failure.set_message(std::string(written.status.message()));
    return FailSave(fleet, written.step,
                    StorageStatus(failure, absl::StrCat("checkpoint of step ", written.step, " was not committed")),
                    -1);
  }
  v1::Event event = CheckpointEventOf(written, found->second);
  fleet.commits.erase(found);
  fleet.last_committed_step = fleet.committed_by_run = written.step;
  fleet.last_committed_path = written.committed.path;
  KeepCandidate(fleet, written);
  std::erase_if(fleet.uncommitted, [&](const auto& entry) { return entry.first <= written.step; });
  fleet.counters.checkpoint_bytes += event.checkpoint().bytes();
  fleet.Emit(PersistState{{fleet.generation, written.step}}, "a checkpoint was committed");
  fleet.Publish(event, "a checkpoint was committed");
  for (const std::string& warning : written.committed.warnings) fleet.PublishNotice(warning);
  fleet.SendToAll(Outcome(written.step, true, ""), "a checkpoint was committed");
  CompleteIfAllFinished(fleet, now);
  if (fleet.phase == Phase::kRecovering) FormViewIfComplete(fleet, now);
  GrowAgain(fleet, now);
}

}  // namespace zerofleet::coordinator
