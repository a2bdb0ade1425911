// Loading with fallback; see load_phase.h.
#include "coordinator/load_phase.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/divergence.h"
#include "coordinator/ending.h"
#include "coordinator/outlived_commit.h"
#include "coordinator/recovery.h"
#include "coordinator/repeated_steps.h"
#include "coordinator/snapshots.h"

namespace zerofleet::coordinator {
namespace {

using google::protobuf::util::MessageDifferencer;

bool HasCandidate(const Fleet& fleet) { return fleet.loading.candidate < fleet.parameters.candidates.size(); }

std::string CandidatePath(const Fleet& fleet) {
  return HasCandidate(fleet) ? fleet.parameters.candidates[fleet.loading.candidate].path : "";
}

// Sets nothing if there is no candidate.
void SetCandidate(const Fleet& fleet, v1::Load& load) {
  if (!HasCandidate(fleet)) return;
  const CheckpointCandidate& candidate = fleet.parameters.candidates[fleet.loading.candidate];
  load.set_path(candidate.path);
  load.set_step(candidate.step);
  load.set_manifest_xxh3_128(candidate.digest);
}

int64_t StepToLoad(const Fleet& fleet) {
  if (fleet.loading.snapshot) return fleet.loading.snapshot->id.step();
  return HasCandidate(fleet) ? fleet.parameters.candidates[fleet.loading.candidate].step : 0;
}

// Whether the stored bytes are at fault, so that an older checkpoint may be whole; a mismatch with the configuration is
// not damage.
bool IsDamage(absl::StatusCode code) {
  return code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kNotFound;
}

// Whether the bytes, or only this reader's memory, mount or disk, may be at fault (EIO and ESTALE are
// ResourceExhausted): another must read it.
bool MayBeTheReaders(absl::StatusCode code) { return IsDamage(code) || code == absl::StatusCode::kResourceExhausted; }

// The fleet's figures go back to the step that was loaded.
void ReturnTo(Fleet& fleet, int64_t step) {
  fleet.training.start_step = step;
  if (HasCandidate(fleet)) {
    fleet.saving.last_committed_step = fleet.parameters.candidates[fleet.loading.candidate].step;
    fleet.saving.last_committed_path = CandidatePath(fleet);
  }
  fleet.saving.committed_by_run = std::min(fleet.saving.committed_by_run, step);
  fleet.training.last_evaluated_step = std::min(fleet.training.last_evaluated_step, step);
  fleet.training.last_step_event.set_step(std::min(fleet.training.last_step_event.step(), step));
  while (!fleet.training.step_losses.empty() && fleet.training.step_losses.back().first > step)
    fleet.training.step_losses.pop_back();
  fleet.counters.lost_step_seconds += LoseStepsAfter(fleet, step);
}

// Sets damaged checkpoints aside, since the run will reach their steps again. The state stops naming them first: a
// coordinator that is lost in between would otherwise miss them at its next start.
void SetBadOnesAside(Fleet& fleet) {
  std::vector<CheckpointCandidate>& candidates = fleet.parameters.candidates;
  const auto good = candidates.begin() + static_cast<std::ptrdiff_t>(fleet.loading.candidate);
  const std::vector<CheckpointCandidate> damaged(candidates.begin(), good);
  candidates.erase(candidates.begin(), good);
  fleet.loading.candidate = 0;
  if (!damaged.empty()) fleet.Emit(PersistState{StateOf(fleet)}, "the newest checkpoint is another from here on");
  for (const std::string& path : std::exchange(fleet.parameters.unreadable, {})) {
    fleet.Emit(SetAside{path}, "its manifest is invalid, or another's");
  }
  for (const CheckpointCandidate& candidate : damaged) {
    fleet.Emit(SetAside{candidate.path}, "damaged; the run will reach its step again");
  }
}

void StartTraining(Fleet& fleet, double now) {
  const int64_t loaded = StepToLoad(fleet);
  if (!SettleRollback(fleet, loaded)) return;
  fleet.phase = Phase::kTraining;
  const int64_t reached = fleet.training.last_step_event.step();
  ReturnTo(fleet, loaded);
  const std::optional<SnapshotChoice> snapshot = std::exchange(fleet.loading.snapshot, std::nullopt);
  for (Member& member : fleet.members) {
    member.state = MemberState::kTraining;
    member.step = fleet.training.start_step;
    member.last_heard = now;
    member.save.reset();
    member.save_since = member.progress_since = now;
  }
  SetBadOnesAside(fleet);
  if (fleet.training.began == 0) {
    fleet.training.began = now;
    fleet.training.first_step = fleet.training.start_step;
    PublishStart(fleet, fleet.members.front(), HasCandidate(fleet));
  }
  v1::CoordinatorMessage message;
  fleet.training.start = StartOf(fleet);
  if (snapshot) *fleet.training.start.mutable_loaded() = snapshot->id;
  fleet.training.generation = fleet.generation;
  if (fleet.recovering.current) EndRecovery(fleet, reached, now);
  *message.mutable_start() = fleet.training.start;
  fleet.SendToAll(message, "every rank has loaded");
  SettleLateAnswers(fleet);
}

void AskToLoad(Fleet& fleet, double now) {
  v1::CoordinatorMessage message;
  v1::Load& load = *message.mutable_load();
  if (fleet.loading.snapshot) {
    *load.mutable_snapshot() = fleet.loading.snapshot->id;
  } else {
    SetCandidate(fleet, load);
  }
  const char* why = fleet.loading.snapshot ? "the newest snapshot that is held whole"
                    : HasCandidate(fleet)  ? "the newest checkpoint not known to be bad"
                                           : "no checkpoint to resume";
  fleet.loading.progress = now;
  const std::shared_ptr<const v1::CoordinatorMessage> without_peer = fleet.Stamped(message);
  for (Member& member : fleet.members) {
    member.state = MemberState::kLoading;
    member.load_failure = absl::OkStatus();
    member.last_heard = now;
    if (fleet.loading.snapshot && !fleet.loading.snapshot->holders[member.rank].empty()) {
      load.set_peer(fleet.loading.snapshot->holders[member.rank]);
      fleet.Send(member.id, message, why);
    } else {
      fleet.Emit(SendTo{member.id, without_peer}, why);
    }
  }
}

// If the rank's own part is damaged and another worker has a copy, the rank loads that; the others are not involved.
bool TakesTheCopy(Fleet& fleet, const Member& member, const v1::Failure& failure, double now) {
  std::string& holder = fleet.loading.snapshot->holders[member.rank];
  const std::string& copy = fleet.loading.snapshot->copies[member.rank];
  if (static_cast<absl::StatusCode>(failure.code()) != absl::StatusCode::kDataLoss) return false;
  if (!holder.empty() || copy.empty()) return false;
  holder = copy;
  fleet.loading.progress = now;
  fleet.PublishNotice(absl::StrCat(NameOf(member), " could not load the snapshot of step ",
                                   fleet.loading.snapshot->id.step(), ": ", failure.message(),
                                   "; taking its copy from ", copy));
  v1::CoordinatorMessage message;
  *message.mutable_load()->mutable_snapshot() = fleet.loading.snapshot->id;
  message.mutable_load()->set_peer(copy);
  fleet.Send(member.id, std::move(message), "its own part is damaged");
  return true;
}

void GiveUpSnapshot(Fleet& fleet, const Member& member, const v1::Failure& failure, double now) {
  const int64_t step = fleet.loading.snapshot->id.step();
  fleet.loading.snapshot.reset();
  fleet.PublishNotice(
      absl::StrCat(NameOf(member), " could not load the snapshot of step ", step, ": ", failure.message(), "; ",
                   HasCandidate(fleet) ? absl::StrCat("falling back to ", CandidatePath(fleet)) : "starting again"));
  AskToLoad(fleet, now);
}

// "could not load checkpoint ckpt/step-20: ckpt/step-20/rank-00001.safetensors: ..."
std::string LoadFailureText(const Fleet& fleet, const Member& member) {
  return absl::StrCat("could not load checkpoint ", CandidatePath(fleet), ": ", member.load_failure.message());
}

void Verify(Fleet& fleet, double now) {
  constexpr double kSlowestBytesPerSecond = 20e6;
  const CheckpointCandidate& candidate = fleet.parameters.candidates[fleet.loading.candidate];
  const double seconds = fleet.load_timeout_seconds() + static_cast<double>(candidate.bytes) / kSlowestBytesPerSecond;
  fleet.loading.verification = Verification{candidate.path, now + seconds, now};
  fleet.Emit(VerifyCheckpoint{candidate.path, candidate.step, candidate.digest},
             "is it damaged, or is a rank at fault?");
}

void OnUnreadable(Fleet& fleet, Member& member, absl::Status failure, double now) {
  member.load_failure = std::move(failure);
  if (fleet.loading.verification) return;
  fleet.PublishNotice(absl::StrCat(NameOf(member), " ", LoadFailureText(fleet, member),
                                   "; the coordinator reads it to learn who is at fault"));
  Verify(fleet, now);
}

void FallBackOrFail(Fleet& fleet, const Member& member, const absl::Status& verdict, double now) {
  std::string text = absl::StrCat(NameOf(member), " ", LoadFailureText(fleet, member));
  const bool same = verdict.message() == member.load_failure.message();
  absl::StrAppend(&text, "; the coordinator finds ", same ? "the same" : verdict.message());
  ++fleet.counters.checkpoint_verify_failures;
  bool last = fleet.loading.candidate + 1 >= fleet.parameters.candidates.size();
  if (last && HasLateCommit(fleet)) {
    ++fleet.loading.candidate;  // so that the late commit goes behind the damaged one
    RegroupAll(fleet, absl::StrCat(text, "; a newer one was committed meanwhile"), now);
    return SettleLateAnswers(fleet);
  }
  if (!fleet.parameters.may_fall_back || last) {
    if (fleet.parameters.may_fall_back) absl::StrAppend(&text, "; no older checkpoint is left");
    return FailFleet(fleet, MakeStatus(absl::StatusCode::kDataLoss, text), member.rank);
  }
  ++fleet.loading.candidate;
  fleet.PublishNotice(absl::StrCat(text, "; falling back to ", CandidatePath(fleet)));
  AskToLoad(fleet, now);
}

}  // namespace

void PublishStart(Fleet& fleet, const Member& told, bool resumed) {
  v1::Event event;
  v1::StartEvent& start = *event.mutable_start();
  start.set_version(fleet.parameters.version);
  start.set_revision(fleet.parameters.revision);
  start.set_run_id(fleet.parameters.run_id);
  *start.mutable_config() = fleet.parameters.config;
  start.set_world_size(fleet.world_size());
  start.set_generation(fleet.generation);
  start.set_device(told.hello.device());
  start.set_parameters(told.ready.parameters());
  if (resumed) start.set_resumed_from(fleet.training.start_step);
  fleet.Publish(event, "every rank has loaded");
}

void BeginLoad(Fleet& fleet, double now) {
  const bool from_memory = fleet.recovering.current && !fleet.recovering.memory_is_doubted;
  fleet.loading.snapshot = from_memory ? NewestSnapshot(fleet) : std::nullopt;
  const int64_t committed = HasCandidate(fleet) ? fleet.parameters.candidates[fleet.loading.candidate].step : 0;
  if (fleet.loading.snapshot && fleet.loading.snapshot->id.step() < committed) fleet.loading.snapshot.reset();
  AskToLoad(fleet, now);
}

void OnLoadResult(Fleet& fleet, Member& member, const v1::LoadResult& result, double now) {
  if (fleet.phase != Phase::kLoading || !fleet.AllEntered()) return;
  const bool awaited = fleet.loading.snapshot
                           ? MessageDifferencer::Equals(result.snapshot(), fleet.loading.snapshot->id)
                           : !result.has_snapshot() && result.path() == CandidatePath(fleet);
  if (!awaited) return;  // it is about a candidate that was given up
  if (result.ok()) {
    const std::string& initial = result.initial_xxh3_128();
    if (fleet.loading.initial.empty()) fleet.loading.initial = initial;
    if (!initial.empty() && initial != fleet.loading.initial) {
      return FailFleet(fleet,
                       absl::FailedPreconditionError(absl::StrCat(
                           "init_from: ", NameOf(member), " has read weights whose manifest has XXH3-128 ", initial,
                           ", and this run began with ", fleet.loading.initial, "; every rank needs the same ones")),
                       member.rank);
    }
    fleet.loading.progress = now;
    member.state = MemberState::kReady;
    member.samples_consumed = result.samples_consumed();
    if (fleet.All(MemberState::kReady)) StartTraining(fleet, now);
    return;
  }
  absl::Status failure = MakeStatus(static_cast<absl::StatusCode>(result.failure().code()), result.failure().message());
  if (result.failure().own_storage() && MayRecover(fleet, failure, /*of_its_node=*/true)) {
    // What it was to load is not in doubt.
    return LoseMembers(fleet, {member.id}, absl::StrCat("could not load: ", failure.message()), "reported", now);
  }
  if (fleet.loading.snapshot && TakesTheCopy(fleet, member, result.failure(), now)) return;
  if (fleet.loading.snapshot) return GiveUpSnapshot(fleet, member, result.failure(), now);
  if (HasCandidate(fleet) && MayBeTheReaders(failure.code())) return OnUnreadable(fleet, member, failure, now);
  if (failure.ok()) failure = absl::InternalError("load failed without a reason");
  FailFleet(fleet, Annotate(failure, absl::StrCat(NameOf(member), " could not load")), member.rank);
}

void OnVerified(Fleet& fleet, const CheckpointVerified& verified, double now) {
  if (!fleet.loading.verification || fleet.loading.verification->path != verified.path) return;
  fleet.loading.verification.reset();
  std::vector<MemberId> failed;
  for (const Member& member : fleet.members) {
    if (!member.load_failure.ok()) failed.push_back(member.id);
  }
  if (failed.empty()) return;  // those that could not load are lost by now, and their replacements have not failed to
  if (verified.path != CandidatePath(fleet)) return Verify(fleet, now);
  const Member& first = *fleet.Find(failed.front());
  const std::string text = LoadFailureText(fleet, first);
  if (verified.status.ok()) {
    return LoseMembers(
        fleet, failed,
        absl::StrCat(text, "; the coordinator has read all of it and it is whole: the memory, the mount ",
                     "or the disk of ", first.hello.host(), " is at fault"),
        "reported", now);
  }
  if (IsDamage(verified.status.code())) return FallBackOrFail(fleet, first, verified.status, now);
  FailFleet(fleet,
            MakeStatus(verified.status.code(), absl::StrCat(NameOf(first), " ", text,
                                                            "; the coordinator cannot read it, "
                                                            "either: ",
                                                            verified.status.message())),
            first.rank);
}

void CheckVerification(Fleet& fleet, double now) {
  const bool by_progress = fleet.parameters.config.checkpoint().stall_timeout_seconds() > 0;  // save_stalls.h
  if (!fleet.loading.verification || by_progress || now <= fleet.loading.verification->deadline) return;
  const std::string path = fleet.loading.verification->path;
  fleet.loading.verification.reset();
  for (const Member& member : fleet.members) {
    if (member.load_failure.ok()) continue;
    return FailFleet(fleet,
                     absl::DeadlineExceededError(absl::StrCat(NameOf(member), " ", LoadFailureText(fleet, member),
                                                              "; the coordinator has not read ", path, " in time")),
                     member.rank);
  }
}

}  // namespace zerofleet::coordinator
