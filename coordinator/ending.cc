// The ends of a run; see ending.h.
#include "coordinator/ending.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/batch_schedule.h"

namespace zerofleet::coordinator {
namespace {

v1::CoordinatorMessage RefusedMessage(const absl::Status& status) {
  v1::CoordinatorMessage message;
  message.mutable_refused()->set_code(static_cast<int>(status.code()));
  message.mutable_refused()->set_message(std::string(status.message()));
  return message;
}

// Ranks move in lockstep, so all must end at the same step.
absl::Status SameStep(const Fleet& fleet) {
  const Member& first = fleet.members.front();
  for (const Member& member : fleet.members) {
    if (member.step == first.step) continue;
    return absl::InternalError(absl::StrCat(NameOf(first), " finished at step ", first.step, " but ", NameOf(member),
                                            " at step ", member.step));
  }
  return absl::OkStatus();
}

// The step that the run would resume from.
int64_t KeptStep(const Fleet& fleet) { return std::max(fleet.training.start_step, fleet.saving.last_committed_step); }

v1::Event EndOf(const Fleet& fleet, double now) {
  v1::Event event;
  v1::EndEvent& end = *event.mutable_end();
  const v1::Config& config = fleet.parameters.config;
  int64_t step = fleet.members.front().step;
  end.set_step(step);
  end.set_seconds(now - fleet.training.began);
  end.set_tokens(SequencesBetween(config.batch(), fleet.training.first_step, step) * config.model().context());
  for (const Member& member : fleet.members) {
    *end.add_ranks() = member.report;
    if (member.finished_early) end.set_stopped(true);
  }
  return event;
}

}  // namespace

void FailFleet(Fleet& fleet, const absl::Status& status, int rank) {
  if (fleet.ended()) return;
  fleet.counters.lost_steps += std::max<int64_t>(0, fleet.training.last_step_event.step() - KeptStep(fleet));
  std::string why(status.message());
  fleet.phase = Phase::kFailed;
  fleet.message = why;
  v1::Event event;
  event.mutable_failure()->set_code(static_cast<int>(status.code()));
  event.mutable_failure()->set_message(why);
  event.mutable_failure()->set_rank(rank);
  fleet.Publish(event, "the run failed");
  fleet.SendToAll(RefusedMessage(status), "the run failed");
  fleet.SendToSpares(RefusedMessage(status), "the run failed");
  for (const Member& member : fleet.members) {
    if (member.id < kAwayIds) fleet.Emit(CloseSession{member.id}, "the run failed");
  }
  for (const Member& spare : fleet.spares) fleet.Emit(CloseSession{spare.id}, "the run failed");
  fleet.Emit(EndRun{status}, "the run failed");
}

void RefuseSession(Fleet& fleet, MemberId member, const absl::Status& status) {
  fleet.Send(member, RefusedMessage(status), std::string(status.message()));
  fleet.Emit(CloseSession{member}, "refused");
}

void OnFinished(Fleet& fleet, Member& member, const v1::Finished& finished, double now) {
  if (fleet.phase != Phase::kAdopting) {
    if (fleet.phase != Phase::kFinishing) fleet.finishing.since = now;
    fleet.phase = Phase::kFinishing;
  }
  member.state = MemberState::kFinished;
  member.step = finished.step();
  member.finished_early = finished.stopped();
  member.report = finished.report();
  member.report.set_rank(member.rank);
  member.progress.clear();
  FailIfAShardCannotCome(fleet);
  CompleteIfAllFinished(fleet, now);
}

void FailIfAShardCannotCome(Fleet& fleet) {
  for (const auto& [step, commit] : fleet.saving.commits) {
    for (const Member& member : fleet.members) {
      if (member.state != MemberState::kFinished || commit.shards.contains(member.rank)) continue;
      std::string text = absl::StrCat("checkpoint of step ", step, " was not committed: ", NameOf(member),
                                      " finished without its shard; ", LastCommitText(fleet));
      return FailFleet(fleet, absl::DataLossError(text), member.rank);
    }
  }
}

void CompleteIfAllFinished(Fleet& fleet, double now) {
  if (fleet.ended() || !fleet.All(MemberState::kFinished)) return;
  for (const auto& [step, commit] : fleet.saving.commits) {
    if (commit.stage == PendingCommit::Stage::kCommitting) return;
  }
  absl::Status status = SameStep(fleet);
  if (!status.ok()) return FailFleet(fleet, status, -1);
  fleet.phase = Phase::kDone;
  fleet.Publish(EndOf(fleet, now), "every rank has finished");
  v1::CoordinatorMessage complete;
  complete.mutable_complete();
  fleet.SendToAll(complete, "every rank has finished");
  fleet.SendToSpares(complete, "every rank has finished");
  for (const Member& member : fleet.members) fleet.Emit(CloseSession{member.id}, "the run is complete");
  for (const Member& spare : fleet.spares) fleet.Emit(CloseSession{spare.id}, "the run is complete");
  fleet.Emit(EndRun{absl::OkStatus()}, "every rank has finished");
}

}  // namespace zerofleet::coordinator
