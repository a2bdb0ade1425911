// Discarding, telling and counting; see failed_save.h.
#include "coordinator/failed_save.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/ending.h"

namespace zerofleet::coordinator {
namespace {

constexpr char kToldBefore[] = "the save failed, as the coordinator before this one told";

std::string CauseOf(const SaveFailure& failure) {
  std::string text(failure.status.message());
  if (failure.others > 0) {
    absl::StrAppend(&text, "; ", failure.others, failure.others == 1 ? " other rank" : " other ranks",
                    " failed as well");
  }
  return text;
}

// For watchers, figures and the operator's view.
void Record(Fleet& fleet, int64_t step, const PendingCommit& commit) {
  ++fleet.counters.save_failures;
  const int64_t in_a_row = fleet.saving.failed_save ? fleet.saving.failed_save->in_a_row + 1 : 1;
  const std::string cause = CauseOf(*commit.failure);
  fleet.saving.failed_save = FailedSave{commit.generation, step, commit.retry, in_a_row, cause};
  v1::Event event;
  event.mutable_save_failed()->set_step(step);
  event.mutable_save_failed()->set_rank(commit.failure->rank);
  event.mutable_save_failed()->set_message(absl::StrCat(cause, "; ", LastCommitText(fleet)));
  event.mutable_save_failed()->set_in_a_row(in_a_row);
  fleet.Publish(std::move(event), "a save failed");
}

bool IsBefore(int64_t step, int retry, const v1::ShardWritten& shard) {
  return std::pair(step, retry) < std::pair(int64_t{shard.step()}, int{shard.retry()});
}

// Whether others have saved a later step. A rank saves again only once its last save is settled, and commits are known
// here: so the save of `shard` has failed, and only this rank has not been told.
bool IsLeftBehind(const Fleet& fleet, const v1::ShardWritten& shard) {
  return !fleet.saving.commits.contains(shard.step()) &&
         fleet.saving.commits.upper_bound(shard.step()) != fleet.saving.commits.end();
}

}  // namespace

v1::CoordinatorMessage OutcomeOf(int64_t step, int retry, bool committed, const std::string& text) {
  v1::CoordinatorMessage message;
  message.mutable_checkpoint()->set_step(step);
  message.mutable_checkpoint()->set_retry(retry);
  message.mutable_checkpoint()->set_committed(committed);
  message.mutable_checkpoint()->set_message(text);
  return message;
}

absl::Status StorageStatus(absl::StatusCode code, const std::string& text) {
  const bool keeps_code = ExitCode(MakeStatus(code, "")) == ExitCode(absl::DataLossError(""));
  return MakeStatus(keeps_code ? code : absl::StatusCode::kDataLoss, text);
}

void NoteFailedShard(PendingCommit& commit, const Member& member, const v1::ShardWritten& shard) {
  if (commit.failure) {
    ++commit.failure->others;
    return;
  }
  const std::string text = absl::StrCat(NameOf(member), " could not write its shard of step ", shard.step(), ": ",
                                        shard.failure().message());
  commit.failure = {StorageStatus(static_cast<absl::StatusCode>(shard.failure().code()), text), member.rank, 0};
}

void DiscardFailedSave(Fleet& fleet, int64_t step, double now) {
  const auto found = fleet.saving.commits.find(step);
  found->second.stage = PendingCommit::Stage::kDiscarding;
  found->second.since = now;
  found->second.stall_told = false;
  fleet.Emit(DiscardSave{step, found->second.generation}, "the save failed");
  if (found->second.generation == fleet.generation) return;
  Record(fleet, step, found->second);  // its view is over, so no rank awaits the outcome
  fleet.saving.commits.erase(found);
}

void OnSaveDiscarded(Fleet& fleet, const SaveDiscarded& discarded) {
  const auto found = fleet.saving.commits.find(discarded.step);
  if (found == fleet.saving.commits.end() || found->second.stage != PendingCommit::Stage::kDiscarding ||
      found->second.generation != discarded.generation) {
    return;
  }
  const PendingCommit commit = std::move(found->second);
  fleet.saving.commits.erase(found);
  Record(fleet, discarded.step, commit);
  const SaveFailure& failure = *commit.failure;
  fleet.SendToAll(OutcomeOf(discarded.step, commit.retry, false, std::string(failure.status.message())),
                  "the save failed");
  if (commit.retry + 1 < kMostLastSaveTries) return;
  const std::string text = absl::StrCat(CauseOf(failure), "; the last save was tried ", kMostLastSaveTries, " times; ",
                                        LastCommitText(fleet));
  FailFleet(fleet, MakeStatus(failure.status.code(), text), failure.rank);
}

void DropUnfinishedSaves(Fleet& fleet) {
  for (auto at = fleet.saving.commits.begin(); at != fleet.saving.commits.end();) {
    if (at->second.stage == PendingCommit::Stage::kCommitting) {
      ++at;
      continue;
    }
    if (at->second.failure) Record(fleet, at->first, at->second);
    at = fleet.saving.commits.erase(at);
  }
}

bool IsOfAFailedSave(Fleet& fleet, const Member& member, const v1::ShardWritten& shard) {
  for (auto at = fleet.saving.commits.begin(); at != fleet.saving.commits.end();) {
    const auto& [step, commit] = *at;
    const bool given_up = commit.stage == PendingCommit::Stage::kCollecting && IsBefore(step, commit.retry, shard) &&
                          (step == shard.step() || !commit.shards.contains(member.rank));
    if (!given_up) {
      ++at;
      continue;
    }
    fleet.SendToAll(OutcomeOf(step, commit.retry, false, kToldBefore), kToldBefore);
    at = fleet.saving.commits.erase(at);
  }
  const auto same = fleet.saving.commits.find(shard.step());
  const bool older = same != fleet.saving.commits.end() && shard.retry() < same->second.retry;
  const bool settled = fleet.saving.failed_save && fleet.saving.failed_save->generation == fleet.generation &&
                       !IsBefore(fleet.saving.failed_save->step, fleet.saving.failed_save->retry, shard);
  if (!older && !settled && !IsLeftBehind(fleet, shard)) return false;
  fleet.Send(member.id,
             OutcomeOf(shard.step(), shard.retry(), false, settled ? fleet.saving.failed_save->text : kToldBefore),
             "that save has failed already");
  return true;
}

}  // namespace zerofleet::coordinator
