// Silence, ended sessions and reported failures; see liveness.h.
#include "coordinator/liveness.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "coordinator/ending.h"
#include "coordinator/hang.h"

namespace zerofleet {
namespace {

// The run loses `lost` at once; `cause` is said of the first.
void LoseMembers(Fleet& fleet, const std::vector<Member*>& lost, const std::string& cause, const char* counter) {
  const Member& first = *lost.front();
  std::vector<std::string> names;
  for (const Member* member : lost) names.push_back(NameOf(*member));
  std::string text = absl::StrCat("lost ", absl::StrJoin(names, ", "), " at step ", first.step, ": ", cause);
  if (std::optional<Wait> wait = FindWait(fleet)) absl::StrAppend(&text, "; ", Describe(*wait));
  absl::StrAppend(&text, "; ", LastCommitText(fleet));
  for (Member* member : lost) {
    member->state = MemberState::kLost;
    ++fleet.counters.rank_failures[counter];
  }
  FailFleet(fleet, absl::UnavailableError(text), first.rank);
}

// How long this member may be silent. Before its first heartbeat it may be busy loading or opening data.
double SilenceLimit(const Fleet& fleet, const Member& member) {
  bool judged = member.heartbeats || fleet.phase == Phase::kTraining || fleet.phase == Phase::kFinishing;
  return judged ? fleet.heartbeat_timeout_seconds() : fleet.form_timeout_seconds();
}

bool ExplainedByAPeer(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kAborted ||
         code == absl::StatusCode::kDeadlineExceeded;
}

void ForgiveOwnDelay(Fleet& fleet, double now) {
  if (now - fleet.last_tick > fleet.heartbeat_timeout_seconds() / 2) {
    for (Member& member : fleet.members) member.last_heard = now;
    if (fleet.suspicion) fleet.suspicion->deadline = now + fleet.heartbeat_timeout_seconds();
  }
  fleet.last_tick = now;
}

}  // namespace

void CheckLiveness(Fleet& fleet, double now) {
  ForgiveOwnDelay(fleet, now);
  std::vector<Member*> silent;
  for (Member& member : fleet.members) {
    if (member.state == MemberState::kFinished || member.failed) continue;  // it waits for the others; it has left
    if (now - member.last_heard > SilenceLimit(fleet, member)) silent.push_back(&member);
  }
  if (!silent.empty()) {
    double seconds = now - silent.front()->last_heard;
    return LoseMembers(fleet, silent, absl::StrFormat("nothing heard for %.1f s", seconds), "heartbeat_timeout");
  }
  if (fleet.suspicion && now >= fleet.suspicion->deadline) {
    FailFleet(fleet, fleet.suspicion->status, fleet.suspicion->rank);
  }
}

void OnSessionClosed(Fleet& fleet, Member& member, const std::string& cause) {
  if (member.state == MemberState::kFinished) return;
  if (fleet.phase == Phase::kForming) {
    fleet.Emit(CloseSession{member.id}, absl::StrCat(NameOf(member), " left before the fleet formed: ", cause));
    std::erase_if(fleet.members, [id = member.id](const Member& other) { return other.id == id; });
    return;
  }
  if (member.failed) return;  // it said why before it went
  LoseMembers(fleet, {&member}, cause.empty() ? "its session ended" : cause, "session_ended");
}

void OnFailure(Fleet& fleet, Member& member, const v1::Failure& failure, double now) {
  absl::Status status = MakeStatus(static_cast<absl::StatusCode>(failure.code()), failure.message());
  if (status.ok()) status = absl::InternalError("failed without a reason");
  std::string text = absl::StrCat(NameOf(member), " failed");
  if (fleet.phase != Phase::kForming) absl::StrAppend(&text, " at step ", std::max(failure.step(), member.step));
  absl::StrAppend(&text, ": ", failure.message());
  ++fleet.counters.rank_failures["reported"];
  if (fleet.phase == Phase::kForming || !ExplainedByAPeer(status.code())) {
    return FailFleet(fleet, MakeStatus(status.code(), text), member.rank);
  }
  absl::StrAppend(&text, "; ", LastCommitText(fleet));
  member.failed = true;
  if (!fleet.suspicion) {
    fleet.suspicion = Suspicion{MakeStatus(status.code(), text), member.rank, now + fleet.heartbeat_timeout_seconds()};
  }
}

}  // namespace zerofleet
