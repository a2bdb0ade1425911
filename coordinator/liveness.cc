// Silence, ended sessions and reported failures; see liveness.h.
#include "coordinator/liveness.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "coordinator/away.h"
#include "coordinator/disagreement.h"
#include "coordinator/divergence.h"
#include "coordinator/ending.h"
#include "coordinator/hang.h"
#include "coordinator/isolation.h"
#include "coordinator/load_phase.h"
#include "coordinator/recovery.h"
#include "coordinator/save_stalls.h"

namespace zerofleet::coordinator {
namespace {

constexpr char kHeartbeatTimeout[] = "heartbeat_timeout";

// Clients give up a connection on which nothing has arrived for 10 to 20 s (services/rpc/grpc_common.h).
constexpr double kConnectionsLast = 10;

// The ranks that are alive but for which the others have waited too long in a collective or at the end. A rank that is
// saving has, from its last written byte on, the time that a fleet may take to form.
std::vector<MemberId> Hung(const Fleet& fleet, const std::optional<Wait>& wait, double now) {
  std::vector<MemberId> hung;
  if (!wait && fleet.phase != Phase::kFinishing) return hung;
  for (const Member& member : fleet.members) {
    const bool late = fleet.phase == Phase::kTraining && wait &&
                      std::binary_search(wait->missing.begin(), wait->missing.end(), member.rank);
    const bool last = fleet.phase == Phase::kFinishing && member.state != MemberState::kFinished;
    const bool saves = IsSaving(fleet, member.rank);
    const double since = late ? wait->since : fleet.finishing.since;
    const double waited = now - (saves ? std::max(since, member.save_since) : since);
    const double limit = std::max(HangLimit(fleet), saves ? fleet.form_timeout_seconds() : 0);
    if ((late || last) && waited > limit) hung.push_back(member.id);
  }
  return hung;
}

std::string SilenceText(double seconds) { return absl::StrFormat("nothing heard for %.1f s", seconds); }

bool ExplainedByAPeer(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kAborted ||
         code == absl::StatusCode::kDeadlineExceeded;
}

// Whether it has come to a recovery and has left no view yet. What it cannot use is in use by the others, so its node
// is at fault.
bool IsNewcomer(const Fleet& fleet, const Member& member) {
  const bool joins = fleet.phase == Phase::kRecovering && member.state == MemberState::kJoined;
  const bool enters = fleet.phase == Phase::kLoading && fleet.recovering.current.has_value();
  return (joins || enters) && member.leaves_by == 0;
}

void LoseSilentSpare(Fleet& fleet, double now) {
  if (fleet.ended() || !HearsAnybody(fleet, now)) return;
  for (const Member& spare : fleet.spares) {
    const double seconds = now - spare.last_heard;
    if (seconds <= SilenceLimit(fleet, spare)) continue;
    return LoseMembers(fleet, {spare.id}, SilenceText(seconds), kHeartbeatTimeout, now);
  }
}

// Whether the session ends at a time when nobody is heard, which points to a failed network and not to one process that
// has ended (with a single member there is no telling), or after this coordinator stood still for so long that clients
// have given up their connections.
bool EndsInASilenceOfAll(const Fleet& fleet, const Member& member, double now) {
  const bool counts = fleet.phase != Phase::kForming && member.state != MemberState::kSpare && !member.failed;
  const bool trains = fleet.phase == Phase::kTraining || fleet.phase == Phase::kFinishing;
  const bool late = now < fleet.hearing.late_until && trains && !fleet.hearing.suspicion;  // a loss may explain it
  return counts && (late || (fleet.members.size() > 1 && SilenceNow(fleet, now) != Silence::kOfSome));
}

// The same for a spare, whose end concerns no other member.
bool EndsWhileNobodyIsHeard(const Fleet& fleet, const Member& member, double now) {
  const bool counts = fleet.phase != Phase::kForming && member.state == MemberState::kSpare;
  return counts && (now < fleet.hearing.late_until || !HearsAnybody(fleet, now));
}

// Members that were told to leave a lost view and have not sent Ready since.
std::vector<MemberId> NotLeaving(const Fleet& fleet, double now) {
  std::vector<MemberId> late;
  for (const Member& member : fleet.members) {
    const bool forms = fleet.phase == Phase::kRecovering || fleet.phase == Phase::kForming;
    const bool leaves = forms && member.state == MemberState::kJoined;
    if (leaves && member.leaves_by > 0 && now > member.leaves_by) late.push_back(member.id);
  }
  return late;
}

// No loss has explained the failure. If ranks have said whom they could not reach, one rank of each such pair is given
// up, since the two would not reach each other in the next view, either.
void Conclude(Fleet& fleet, const Suspicion& suspicion, double now) {
  std::vector<MemberId> lost;
  for (const int rank : CoverOf(suspicion.pairs)) lost.push_back(fleet.members[rank].id);
  const bool replaces = fleet.parameters.config.restart().max_per_rank() > 0;
  if (lost.empty() || !replaces) {
    const Suspicion copy = suspicion;  // a copy, since the next generation resets it
    if (!copy.counted) ++fleet.counters.rank_failures["reported"];
    return BreakView(fleet, copy.status, {copy.rank}, now);
  }
  LoseMembers(fleet, lost, Describe(suspicion.pairs), "unreachable", now);
}

void NoteBrokenPair(Fleet& fleet, const Member& member, const v1::Failure& failure) {
  const int other = failure.unreachable_rank();
  const bool told = failure.has_unreachable_rank() && failure.in_view() && fleet.view.has_value();
  if (!told || other < 0 || other >= fleet.world_size() || other == member.rank) return;
  fleet.hearing.suspicion->pairs.insert(PairOf(member.rank, other));
}

// If nobody has entered the view or loaded for as long as loading may take, the ranks that are awaited are lost. If all
// are awaited, no one rank is to blame, and it counts against each.
void CheckLoading(Fleet& fleet, double now) {
  const double limit = fleet.load_timeout_seconds();
  if (fleet.phase != Phase::kLoading || now - fleet.loading.progress <= limit) return;
  const bool entering = !fleet.AllEntered();
  std::vector<MemberId> late;
  std::vector<int> ranks;
  for (const Member& member : fleet.members) {
    const bool loaded = member.state == MemberState::kReady || !member.load_failure.ok();  // or reported that it cannot
    if (entering ? member.entered.has_value() : loaded) continue;
    late.push_back(member.id);
    ranks.push_back(member.rank);
  }
  if (late.empty()) return CheckVerification(fleet, now);
  const std::string text =
      absl::StrFormat("%s for %g s (restart.load_timeout_seconds)", entering ? "entered the view" : "loaded", limit);
  if (late.size() < fleet.members.size()) {
    return LoseMembers(fleet, late, absl::StrCat("has not ", text, " though others have"), "hang", now);
  }
  ++fleet.counters.rank_failures["hang"];
  BreakView(fleet, absl::UnavailableError(absl::StrCat("no rank has ", text)), ranks, now);
}

// No rank waits for another, and none makes progress: what they all read, or the machine, hangs. No one rank is to
// blame, so people are told.
void TellStandstill(Fleet& fleet, double now) {
  const double limit = std::max(HangLimit(fleet), fleet.form_timeout_seconds());
  double since = fleet.training.standstill_told;
  for (const Member& member : fleet.members) {
    if (member.state != MemberState::kTraining) return;
    since = std::max({since, member.progress_since, member.save_since});
  }
  if (fleet.phase != Phase::kTraining || !fleet.saving.commits.empty() || now - since <= limit) return;
  fleet.training.standstill_told = now;
  fleet.PublishNotice(
      absl::StrFormat("no rank has made progress for %g s at step %d, and none waits for another: look at "
                      "the storage of the data, and at the machines; %s",
                      limit, fleet.members.front().step, LastCommitText(fleet)));
}

}  // namespace

void ForgiveLongDelay(Fleet& fleet, double now) {
  if (now - fleet.hearing.last_tick > kConnectionsLast) ForgiveOwnDelay(fleet, now);
}

void ForgiveOwnDelay(Fleet& fleet, double now) {
  const double delay = now - fleet.hearing.last_tick;
  fleet.hearing.last_tick = now;
  if (delay <= fleet.heartbeat_timeout_seconds() / 2) return;
  if (delay > kConnectionsLast) {
    fleet.hearing.late_by = delay;
    fleet.hearing.late_until = now + fleet.heartbeat_timeout_seconds();
  }
  for (Member& member : fleet.members) {
    member.last_heard = now;
    member.progress_since += delay;
    if (member.leaves_by > 0) member.leaves_by += delay;
  }
  for (Member& spare : fleet.spares) spare.last_heard = now;
  if (fleet.hearing.suspicion) fleet.hearing.suspicion->deadline = now + fleet.heartbeat_timeout_seconds();
  if (fleet.hearing.verdicts) fleet.hearing.verdicts->deadline += delay;
  ForgiveSaves(fleet, delay, now);
  for (double* since :
       {&fleet.forming.since, &fleet.training.standstill_told, &fleet.finishing.since, &fleet.loading.progress})
    *since += delay;
}

void CheckLiveness(Fleet& fleet, double now) {
  std::vector<MemberId> silent;
  bool stuck = false;  // some rank has stood still for the limit; before that, no wait can exceed it
  const double hang_limit = HangLimit(fleet);
  for (const Member& member : fleet.members) {
    stuck = stuck || now - member.progress_since > hang_limit;
    if (member.state == MemberState::kFinished || member.failed) continue;  // done and waiting; has left
    if (now - member.last_heard > SilenceLimit(fleet, member)) silent.push_back(member.id);
  }
  if (!silent.empty()) {
    const Silence silence = SilenceNow(fleet, now);
    if (silence == Silence::kUnclear) return;
    if (silence == Silence::kOfAll) return BecomeIsolated(fleet, now);
    const double seconds = now - fleet.Find(silent.front())->last_heard;
    LoseMembers(fleet, silent, SilenceText(seconds), kHeartbeatTimeout, now);
    return LoseSilentSpare(fleet, now);
  }
  const std::optional<Wait> wait = stuck ? FindWait(fleet) : std::nullopt;
  if (const std::vector<MemberId> hung = Hung(fleet, wait, now); !hung.empty()) {
    const double since = wait && fleet.phase == Phase::kTraining ? wait->since : fleet.finishing.since;
    LoseMembers(fleet, hung, absl::StrFormat("hangs: the others have waited for %.1f s", now - since), "hang", now);
  } else if (const std::vector<MemberId> late = NotLeaving(fleet, now); !late.empty()) {
    LoseMembers(fleet, late, "hangs: it was told to leave the view that is lost, and has not", "hang", now);
  } else if (fleet.hearing.suspicion && now >= fleet.hearing.suspicion->deadline) {
    Conclude(fleet, *fleet.hearing.suspicion, now);
  } else {
    CheckLoading(fleet, now);
    if (!wait) TellStandstill(fleet, now);
  }
  LoseSilentSpare(fleet, now);
}

void OnSessionClosed(Fleet& fleet, Member& member, const std::string& cause, double now) {
  if (fleet.phase == Phase::kAdopting && member.state != MemberState::kSpare) {
    fleet.Emit(CloseSession{member.id}, absl::StrCat(NameOf(member), " may come back once more"));
    return GoAway(fleet, member);
  }
  if (member.state == MemberState::kFinished) {
    member.closed = fleet.hearing.some_have_left = true;
    return;
  }
  if (EndsInASilenceOfAll(fleet, member, now)) {
    const MemberId id = member.id;
    BecomeIsolated(fleet, now);
    fleet.hearing.given_up.erase(id);
    return;
  }
  if (EndsWhileNobodyIsHeard(fleet, member, now)) return AwaitSpare(fleet, member);
  if (fleet.phase == Phase::kForming) {
    fleet.Emit(CloseSession{member.id}, absl::StrCat(NameOf(member), " left before the fleet formed: ", cause));
    const MemberId id = member.id;
    fleet.members.Erase(id);
    fleet.spares.Erase(id);
    return;
  }
  if (member.failed) {  // it has reported why
    member.closed = fleet.hearing.some_have_left = true;
    return;
  }
  LoseMembers(fleet, {member.id}, cause.empty() ? "its session ended" : cause, "session_ended", now);
}

void OnFailure(Fleet& fleet, Member& member, const v1::Failure& failure, double now) {
  if (failure.in_view() && (OnDisagreement(fleet, member, failure, now) || OnDivergence(fleet, failure, now))) return;
  absl::Status status = MakeStatus(static_cast<absl::StatusCode>(failure.code()), failure.message());
  if (status.ok()) status = absl::InternalError("failed without a reason");
  // It is in no view, so nobody else is concerned.
  if (member.state == MemberState::kSpare) {
    return LoseMembers(fleet, {member.id}, std::string(status.message()), "reported", now);
  }
  std::string text = absl::StrCat(NameOf(member), " failed");
  if (fleet.phase != Phase::kForming) absl::StrAppend(&text, " at step ", std::max(failure.step(), member.step));
  absl::StrAppend(&text, ": ", failure.message());
  const bool of_its_node = failure.own_storage() || IsNewcomer(fleet, member);
  if (!ExplainedByAPeer(status.code()) && MayRecover(fleet, status, of_its_node)) {
    return LoseMembers(fleet, {member.id}, failure.message(), "reported", now);
  }
  // A rank that is still in the view reports a peer's failure: if nobody is lost soon, its report is the failure after
  // all.
  const bool tells = failure.in_view() && fleet.phase != Phase::kForming && ExplainedByAPeer(status.code());
  if (!tells) ++fleet.counters.rank_failures["reported"];
  if (fleet.phase == Phase::kForming || !ExplainedByAPeer(status.code())) {
    if (failure.has_divergence()) CountDivergence(fleet, failure.divergence());
    return FailFleet(fleet, MakeStatus(status.code(), text), member.rank);
  }
  member.failed = !failure.in_view();
  fleet.hearing.some_have_left = fleet.hearing.some_have_left || member.failed;
  if (!fleet.hearing.suspicion) {
    fleet.hearing.suspicion =
        Suspicion{MakeStatus(status.code(), text), member.rank, now + fleet.heartbeat_timeout_seconds(), !tells};
  }
  NoteBrokenPair(fleet, member, failure);
}

}  // namespace zerofleet::coordinator
