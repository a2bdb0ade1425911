// Losses, the restart budget and new generations; see recovery.h.
#include "coordinator/recovery.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "coordinator/batch_shares.h"
#include "coordinator/ending.h"
#include "coordinator/failed_save.h"
#include "coordinator/hang.h"
#include "coordinator/view.h"

namespace zerofleet::coordinator {
namespace {

// Ranks move in lockstep, so the fleet's newest step report says where this one is, more closely than its own last
// heartbeat.
int64_t StepOf(const Fleet& fleet, const Member& member) {
  return fleet.phase == Phase::kTraining ? std::max(member.step, fleet.training.last_step_event.step()) : member.step;
}

int64_t LossesThatCount(const Fleet& fleet, int rank) {
  const int64_t window = fleet.parameters.config.restart().window_steps();
  return fleet.recovering.losses.Since(rank, window == 0 ? 0 : fleet.training.last_step_event.step() - window);
}

bool IsPoison(const Fleet& fleet, int rank, int64_t step) {
  return step >= 0 && fleet.recovering.losses.At(rank, step) >= kPoisonLosses;
}

// Why the run must end after the `newest` newest losses; none if it goes on.
std::optional<std::string> Verdict(const Fleet& fleet, size_t newest) {
  const int most = fleet.parameters.config.restart().max_per_rank();
  for (size_t i = fleet.recovering.losses.size() - newest; i < fleet.recovering.losses.size(); ++i) {
    const RankLoss& loss = fleet.recovering.losses[i];
    if (IsPoison(fleet, loss.rank, loss.step)) {
      return absl::StrCat("rank ", loss.rank, " was lost ", kPoisonLosses, " times after step ", loss.step, ": step ",
                          loss.step + 1, " is poison to it; ", fleet.recovering.losses.Text());
    }
    if (LossesThatCount(fleet, loss.rank) > most) {
      const bool placed = loss.rank >= 0;
      return absl::StrCat(
          placed ? absl::StrCat("rank ", loss.rank, " has used its ") : "workers that had no rank yet have used their ",
          most, most == 1 ? " restart" : " restarts", " (restart.max_per_rank); ", fleet.recovering.losses.Text());
    }
  }
  return std::nullopt;
}

void Record(Fleet& fleet, int rank, int64_t step, const std::string& text) {
  const int64_t reached = std::max(step, fleet.training.last_step_event.step());
  fleet.recovering.losses.Add({rank, fleet.phase == Phase::kTraining ? step : -1, reached, text});
}

void NoteRecovery(Fleet& fleet, const std::string& cause, int rank, double last_heard, double now) {
  if (!fleet.recovering.current) fleet.recovering.current = Recovery{cause, {}, now, now - last_heard, 0};
  if (rank >= 0) fleet.recovering.current->failed_ranks.insert(rank);  // -1: it joined a fleet that grows
}

// How long a rank may take from Regroup to Ready, in seconds: as long as others would wait for it in a collective;
// longer if it is reading or writing a file, which nothing interrupts.
double TimeToLeave(const Fleet& fleet, const Member& member) {
  const double reading = member.state == MemberState::kLoading ? fleet.load_timeout_seconds() : 0;
  const double writing = IsSaving(fleet, member.rank) ? fleet.form_timeout_seconds() : 0;
  return std::max({HangLimit(fleet), reading, writing});
}

// Moves all remaining members to the next generation. Shards of the old one are no longer awaited; a manifest that is
// being written is.
void OpenNextGeneration(Fleet& fleet, const std::string& why, double now) {
  fleet.phase = Phase::kRecovering;
  fleet.forming.since = now;
  fleet.hearing.suspicion.reset();
  fleet.hearing.verdicts.reset();
  fleet.adopting.diverged.reset();
  fleet.training.stragglers.named.clear();
  fleet.training.stragglers.checks.clear();
  if (!fleet.view) return;  // there is no view to leave: ready members stay ready
  fleet.places = fleet.view->world_size();
  fleet.view.reset();
  for (Member& member : fleet.members) member.leaves_by = now + TimeToLeave(fleet, member);
  DropUnfinishedSaves(fleet);
  NewGeneration(fleet);
  v1::CoordinatorMessage message;
  message.mutable_regroup()->set_reason(why);
  const std::shared_ptr<const v1::CoordinatorMessage> regroup = fleet.Stamped(std::move(message));
  for (Member& member : fleet.members) {
    member.state = MemberState::kJoined;
    member.entered.reset();
    member.load_failure = absl::OkStatus();
    member.progress.clear();
    member.pace.Clear();
    member.finished_early = false;
    fleet.Emit(SendTo{member.id, regroup}, "its view is lost");
  }
}

// A lost member's record, made from its last heartbeat.
v1::FlightRecord LastHeardOf(const Member& member) {
  v1::FlightRecord record;
  record.set_rank(member.rank);
  for (const v1::GroupProgress& progress : member.progress) {
    v1::FlightEntry& entry = *record.add_entries();
    entry.set_group(progress.group());
    entry.set_sequence(progress.sequence());
    entry.set_operation(progress.operation());
    entry.set_unit(progress.unit());
    entry.set_finished(progress.completed() >= progress.sequence());
  }
  return record;
}

// Ends the sessions of lost members, and frees their places.
void Remove(Fleet& fleet, const std::vector<MemberId>& lost, const std::string& cause) {
  for (MemberId id : lost) {
    const Member& member = *fleet.Find(id);
    if (fleet.view && member.rank >= 0) AddFlight(fleet, LastHeardOf(member));
    v1::Event event;
    event.mutable_lost()->set_rank(member.rank);
    event.mutable_lost()->set_host(member.hello.host());
    event.mutable_lost()->set_pid(member.hello.pid());
    event.mutable_lost()->set_cause(cause);
    fleet.Publish(std::move(event), "another may take its place");
    if (id < kAwayIds) {
      RefuseSession(fleet, id, absl::UnavailableError(absl::StrCat(NameOf(member), " was given up: ", cause)));
    }
    if (member.rank >= 0) fleet.forming.vacant.insert(member.rank);
  }
  for (MemberId id : lost) {
    fleet.members.Erase(id);
    fleet.spares.Erase(id);
  }
}

// The next view has `size` places, and ranks are assigned again.
void Resize(Fleet& fleet, int size) {
  fleet.places = size;
  fleet.forming.vacant.clear();
  for (Member& member : fleet.members) member.rank = -1;
}

// "lost rank 1 (host b, pid 12) at step 5: killed; rank 1 has not arrived at ..."
std::string LossText(const Fleet& fleet, const std::vector<const Member*>& lost, const std::string& cause) {
  std::vector<std::string> names;
  for (size_t i = 0; i < lost.size() && i < kMostNamed; ++i) names.push_back(NameOf(*lost[i]));
  if (lost.size() > kMostNamed) names.push_back(absl::StrCat("and ", lost.size() - kMostNamed, " more"));
  std::string text =
      absl::StrCat("lost ", absl::StrJoin(names, ", "), " at step ", StepOf(fleet, *lost.front()), ": ", cause);
  // Outside a view no rank waits.
  if (std::optional<Wait> wait = fleet.view ? FindWait(fleet) : std::nullopt)
    absl::StrAppend(&text, "; ", Describe(*wait));
  return text;
}

// Ends the run if it was stopping anyway, or if its losses, the last `newest` of which are new, exceed its budget. The
// message of a run without restarts gives only the loss.
bool EndIfItMust(Fleet& fleet, size_t newest, const absl::Status& loss, int rank) {
  std::string text(loss.message());
  if (fleet.finishing.stop_reason) {
    absl::StrAppend(&text, "; the run was stopping (", *fleet.finishing.stop_reason, "); ", LastCommitText(fleet));
    FailFleet(fleet, absl::CancelledError(text), rank);
    return true;
  }
  const std::optional<std::string> verdict = Verdict(fleet, newest);
  if (!verdict) return false;
  if (fleet.parameters.config.restart().max_per_rank() > 0) absl::StrAppend(&text, "; ", *verdict);
  FailFleet(fleet, absl::Status(loss.code(), absl::StrCat(text, "; ", LastCommitText(fleet))), rank);
  return true;
}

// Part of a message: which snapshots remain is known only once all members are ready again.
const char* MayUseMemory(const Fleet& fleet) {
  const bool takes_snapshots = fleet.parameters.config.checkpoint().snapshot_every_steps() > 0;
  const bool may_use_them = takes_snapshots && !fleet.recovering.memory_is_doubted && !fleet.recovering.going_back();
  return may_use_them ? ", from a newer snapshot if one is whole in memory" : "";
}

// "; step 40 is being committed", or nothing. The next view waits for that commit, and goes back to it if it succeeds.
std::string CommitUnderWayText(const Fleet& fleet) {
  std::string text;
  for (const auto& [step, commit] : fleet.saving.commits) {
    if (commit.stage == PendingCommit::Stage::kCommitting) text = absl::StrCat("; step ", step, " is being committed");
  }
  return text;
}

// Gives up `lost`, for `cause`, and members that have left by themselves; the others regroup. `text` tells people why.
void Regroup(Fleet& fleet, std::vector<MemberId> lost, const std::string& cause, const std::string& text, double now) {
  fleet.PublishNotice(
      absl::StrCat(text, "; ", LastCommitText(fleet), CommitUnderWayText(fleet), "; recovering", MayUseMemory(fleet)));
  if (fleet.view) {
    fleet.recovering.flight.Clear();
    fleet.recovering.flight.set_generation(fleet.generation);
    fleet.recovering.flight.set_cause(text);
  }
  const bool some_left = std::exchange(fleet.hearing.some_have_left, false) || fleet.members.away() > 0;
  for (const Member& member : fleet.members) {
    if (!some_left) break;
    const bool gone = member.failed || member.closed || member.state == MemberState::kAway;
    if (member.state != MemberState::kLost && gone) lost.push_back(member.id);
  }
  Remove(fleet, lost, cause);
  OpenNextGeneration(fleet, text, now);
  FillPlacesFromSpares(fleet, now);
}

// Whether the run has got anywhere: a view has trained, or a checkpoint of the run is committed.
bool HasTrained(const Fleet& fleet) {
  return fleet.training.began > 0 || (fleet.parameters.may_fall_back && !fleet.parameters.candidates.empty());
}

// The loss of a spare does not interrupt the run. After too many losses a spare is not replaced.
void LoseSpare(Fleet& fleet, Member& spare, const std::string& cause) {
  fleet.recovering.losses.Add(
      {kSpare, -1, fleet.training.last_step_event.step(), absl::StrCat("spare ", NameOf(spare), ": ", cause)});
  fleet.PublishNotice(absl::StrCat("lost spare ", NameOf(spare), ": ", cause));
  const bool replace = LossesThatCount(fleet, kSpare) <= fleet.parameters.config.restart().max_per_rank();
  if (replace) return Remove(fleet, {spare.id}, cause);
  RefuseSession(fleet, spare.id, absl::UnavailableError(cause));
  fleet.spares.Erase(spare.id);
}

}  // namespace

// A replacement does not help against a configuration or data that a process cannot use, but does against what is wrong
// with one node. Before anything has trained that is a setting to correct: others may not find it better.
bool MayRecover(const Fleet& fleet, const absl::Status& failure, bool of_its_node) {
  const bool restarts = fleet.phase != Phase::kForming && fleet.parameters.config.restart().max_per_rank() > 0;
  const int code = ExitCode(failure);
  if (restarts && of_its_node && HasTrained(fleet)) return true;
  return restarts && code != ExitCode(absl::InvalidArgumentError("")) && code != ExitCode(absl::DataLossError(""));
}

void LoseMembers(Fleet& fleet, const std::vector<MemberId>& lost, const std::string& cause, const char* counter,
                 double now) {
  std::vector<const Member*> members;
  for (MemberId id : lost) {
    Member* member = fleet.Find(id);
    if (member->state == MemberState::kSpare) return LoseSpare(fleet, *member, cause);
    members.push_back(member);
  }
  const std::string text = LossText(fleet, members, cause);
  for (MemberId id : lost) {
    Member& member = *fleet.Find(id);
    ++fleet.counters.rank_failures[counter];
    const int64_t step = StepOf(fleet, member);
    Record(fleet, member.rank, step, absl::StrCat(NameOf(member), " at step ", step, ": ", cause));
    if (fleet.phase != Phase::kForming) NoteRecovery(fleet, text, member.rank, member.last_heard, now);
    member.state = MemberState::kLost;
  }
  if (EndIfItMust(fleet, lost.size(), absl::UnavailableError(text), members.front()->rank)) return;
  if (fleet.phase == Phase::kForming) {  // there is no view yet to recover: the places are free again
    fleet.PublishNotice(text);
    fleet.forming.since = now;  // a replacement gets the full time to come
    return Remove(fleet, lost, cause);
  }
  Regroup(fleet, lost, cause, text, now);
}

void BreakView(Fleet& fleet, const absl::Status& status, const std::vector<int>& ranks, double now) {
  const std::string text(status.message());
  for (int rank : ranks) {
    Record(fleet, rank, fleet.training.last_step_event.step(),
           ranks.size() > 1 ? absl::StrCat("rank ", rank, ": ", text) : text);
    NoteRecovery(fleet, text, rank, now, now);
  }
  if (EndIfItMust(fleet, ranks.size(), status, ranks.front())) return;
  Regroup(fleet, {}, text, text, now);
}

void RegroupAll(Fleet& fleet, const std::string& why, double now) {
  if (EndIfItMust(fleet, /*newest=*/0, absl::UnavailableError(why), -1)) return;
  if (!fleet.recovering.current)
    fleet.recovering.current = Recovery{why, {}, now, 0, 0};  // otherwise this joins a recovery under way
  Regroup(fleet, {}, why, why, now);
}

void FillPlacesFromSpares(Fleet& fleet, double now) {
  while (!fleet.forming.vacant.empty()) {
    const auto ready = std::find_if(fleet.spares.begin(), fleet.spares.end(), IsReadySpare);
    if (ready == fleet.spares.end()) break;
    Member spare = fleet.spares.Take(ready);
    TakePlace(fleet, spare);
    spare.state = MemberState::kReady;
    fleet.PublishNotice(absl::StrCat("a spare (", PlaceOf(spare.hello), ") takes the place of rank ", spare.rank));
    fleet.members.push_back(std::move(spare));
  }
  FormViewIfComplete(fleet, now);
}

void AddFlight(Fleet& fleet, v1::FlightRecord record) {
  auto& ranks = *fleet.recovering.flight.mutable_ranks();
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), record.rank(),
                                   [](const v1::FlightRecord& known, int rank) { return known.rank() < rank; });
  if (at != ranks.end() && at->rank() == record.rank()) return;
  const int most = MostFlightEntries(fleet.places);
  auto& entries = *record.mutable_entries();
  if (entries.size() > most) entries.DeleteSubrange(0, entries.size() - most);  // the oldest
  const auto place = static_cast<int>(at - ranks.begin());
  *ranks.Add() = std::move(record);
  for (int i = ranks.size() - 1; i > place; --i) ranks.SwapElements(i, i - 1);
  if (ranks.size() == fleet.places)
    fleet.Emit(KeepFlight{fleet.recovering.flight}, "every rank of the lost view is in it");
}

int LargestView(const v1::Config& config, int workers) {
  const int tensor = config.parallel().tensor();
  for (int size = workers - workers % tensor; size > 0; size -= tensor) {
    if (CanShare(config, size / tensor)) return size;
  }
  return 0;
}

bool GoOnSmaller(Fleet& fleet, double now) {
  const v1::Config& config = fleet.parameters.config;
  const auto is_ready = [](const Member& member) { return member.state == MemberState::kReady; };
  const int ready = static_cast<int>(std::count_if(fleet.members.begin(), fleet.members.end(), is_ready));
  const int size = LargestView(config, ready);
  if (!fleet.recovering.current || config.restart().min_workers() == 0 || size < config.restart().min_workers())
    return false;
  for (Member& member : fleet.members.TakeAll()) {
    if (!is_ready(member)) {
      RefuseSession(fleet, member.id, absl::DeadlineExceededError("the fleet went on without it: it was not ready"));
    } else if (static_cast<int>(fleet.members.size()) < size) {
      fleet.members.push_back(std::move(member));
    } else {
      member.state = MemberState::kSpare;
      fleet.spares.push_back(std::move(member));
    }
  }
  Resize(fleet, size);
  fleet.PublishNotice(absl::StrCat("nobody came within ", fleet.form_timeout_seconds(), " s: going on with ", size,
                                   " of ", config.parallel().workers(), " workers"));
  FormViewIfComplete(fleet, now);
  return true;
}

void GrowAgain(Fleet& fleet, double now) {
  const v1::Config& config = fleet.parameters.config;
  if (fleet.phase != Phase::kTraining || fleet.finishing.stop_reason ||
      fleet.world_size() >= config.parallel().workers())
    return;
  const auto is_ready = [](const Member& spare) { return !spare.ready.config_digest().empty(); };
  const auto ready = std::count_if(fleet.spares.begin(), fleet.spares.end(), is_ready);
  const int64_t most = std::min<int64_t>(fleet.world_size() + ready, config.parallel().workers());
  const int size = LargestView(config, static_cast<int>(most));
  if (size <= fleet.world_size()) return;
  const std::string text = absl::StrCat("workers have joined: from ", fleet.world_size(), " to ", size);
  fleet.PublishNotice(text);
  fleet.recovering.current = Recovery{text, {}, now, 0, 0};
  const int before = fleet.world_size();
  OpenNextGeneration(fleet, text, now);
  for (int joined = before; joined < size; ++joined) {
    const auto spare = std::find_if(fleet.spares.begin(), fleet.spares.end(), is_ready);
    spare->state = MemberState::kReady;
    fleet.members.push_back(fleet.spares.Take(spare));
  }
  Resize(fleet, size);
}

void EndRecovery(Fleet& fleet, int64_t reached_step, double now) {
  const Recovery recovery = *std::exchange(fleet.recovering.current, std::nullopt);
  fleet.recovering.memory_is_doubted = false;
  v1::Event event;
  v1::RecoveryEvent& told = *event.mutable_recovery();
  told.set_generation(fleet.generation);
  told.set_cause(recovery.cause);
  for (int rank : recovery.failed_ranks) told.add_failed_ranks(rank);
  told.set_resumed_step(fleet.training.start_step);
  told.set_from_memory(fleet.training.start.has_loaded());
  told.set_lost_steps(std::max<int64_t>(0, reached_step - fleet.training.start_step));
  told.set_detect_seconds(recovery.detect_seconds);
  told.set_seconds(now - recovery.began);
  fleet.counters.lost_steps += told.lost_steps();
  ++fleet.counters.recoveries;
  fleet.counters.recovery = {
      .detect = recovery.detect_seconds, .rendezvous = recovery.formed - recovery.began, .load = now - recovery.formed};
  fleet.recovering.ended = now;
  fleet.Publish(std::move(event), "every rank has loaded again");
}

}  // namespace zerofleet::coordinator
