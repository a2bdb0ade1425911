// Giving up sessions, not ranks; see isolation.h.
#include "coordinator/isolation.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/adoption.h"
#include "coordinator/away.h"
#include "coordinator/recovery.h"

namespace zerofleet::coordinator {
namespace {

// In heartbeat timeouts. A worker beats four times per timeout, so a live one has been heard in the last half of it.
// Members fall silent up to a beat apart when the network does.
constexpr double kLately = 0.5;

bool IsExpectedToSpeak(const Member& member) {
  return member.state != MemberState::kLost && member.state != MemberState::kAway && !member.failed && !member.closed;
}

void GiveUp(Fleet& fleet, MemberId id) {
  fleet.hearing.given_up.insert(id);
  fleet.Emit(BreakSession{id}, "nobody is heard: whoever it is may come back");
}

void KeepSeat(Fleet& fleet, const Member& member) {
  if (!member.hello.incarnation().empty()) fleet.forming.seats[member.hello.incarnation()] = member.rank;
}

void GiveUpSilentSpares(Fleet& fleet, double now) {
  const auto is_silent = [&](const Member& spare) {
    return now - spare.last_heard > kLately * fleet.heartbeat_timeout_seconds();
  };
  for (const Member& spare : fleet.spares) {
    if (!is_silent(spare)) continue;
    GiveUp(fleet, spare.id);
    KeepSeat(fleet, spare);
  }
  fleet.spares.EraseIf(is_silent);
}

// Awaits the ranks of a view that trains; they go on in it.
void AwaitRanks(Fleet& fleet) {
  BeginAwaiting(fleet);
  for (Member& member : fleet.members) {
    if (member.state == MemberState::kFinished && member.closed) continue;
    GiveUp(fleet, member.id);
    GoAway(fleet, member);
  }
}

// Awaits members that are in no view, or in one that does not train yet; they join again.
void AwaitWorkers(Fleet& fleet) {
  for (Member& member : fleet.members.TakeAll()) {
    GiveUp(fleet, member.id);
    v1::Event event;  // makes a launcher replace its own worker, which may be hung
    event.mutable_lost()->set_rank(member.rank);
    event.mutable_lost()->set_host(member.hello.host());
    event.mutable_lost()->set_pid(member.hello.pid());
    event.mutable_lost()->set_cause("nobody is heard");
    fleet.Publish(std::move(event), "another may take its place");
    if (member.rank < 0) continue;
    fleet.forming.vacant.insert(member.rank);
    KeepSeat(fleet, member);
  }
}

}  // namespace

double SilenceLimit(const Fleet& fleet, const Member& member) {
  bool judged = member.heartbeats || fleet.phase == Phase::kTraining || fleet.phase == Phase::kFinishing;
  return judged ? fleet.heartbeat_timeout_seconds() : fleet.form_timeout_seconds();
}

Silence SilenceNow(const Fleet& fleet, double now) {
  // The silence of a member that has not begun to beat counts only if no member has begun.
  bool any = false, all = true, any_beats = false, all_that_beat = true;
  for (const Member& member : fleet.members) {
    if (!IsExpectedToSpeak(member)) continue;
    const double seconds = now - member.last_heard, limit = SilenceLimit(fleet, member);
    if (seconds <= kLately * fleet.heartbeat_timeout_seconds()) return Silence::kOfSome;
    any = true;
    all = all && seconds > limit;
    if (limit > fleet.heartbeat_timeout_seconds()) continue;
    any_beats = true;
    all_that_beat = all_that_beat && seconds > limit;
  }
  if (!any) return Silence::kOfSome;
  return (any_beats ? all_that_beat : all) ? Silence::kOfAll : Silence::kUnclear;
}

// This does not use the members' last_heard, which is reset whenever all are sent a request.
bool HearsAnybody(const Fleet& fleet, double now) {
  return now - fleet.hearing.heard_at <= kLately * fleet.heartbeat_timeout_seconds();
}

void BecomeIsolated(Fleet& fleet, double now) {
  const double seconds = now - fleet.members.front().last_heard;
  const size_t members = fleet.members.size();
  fleet.hearing.isolation = Isolation{.since = now, .may_last = members > 1};
  GiveUpSilentSpares(fleet, now);
  if (fleet.phase == Phase::kTraining || fleet.phase == Phase::kFinishing) {
    AwaitRanks(fleet);
  } else {
    if (fleet.view) RegroupAll(fleet, "nobody is heard while the view loads", now);
    if (fleet.ended()) return;
    AwaitWorkers(fleet);
  }
  fleet.forming.since = now;
  const std::string why =
      now < fleet.hearing.late_until
          ? absl::StrFormat("this coordinator stood still for %.1f s, in which connections break",
                            fleet.hearing.late_by)
          : absl::StrFormat("nothing heard of any of %d %s for %.1f s: this coordinator takes itself to be cut off",
                            members, members == 1 ? "worker" : "workers", seconds);
  fleet.PublishNotice(absl::StrCat(why, ", and waits for them to come back; ", LastCommitText(fleet)));
}

void AwaitSpare(Fleet& fleet, const Member& spare) {
  KeepSeat(fleet, spare);
  const MemberId id = spare.id;  // a copy, since Erase destroys the spare
  fleet.Emit(BreakSession{id}, "nobody is heard: this spare may come back");
  fleet.spares.Erase(id);
}

bool WasASpare(const Fleet& fleet, const std::string& incarnation) {
  const auto seat = fleet.forming.seats.find(incarnation);
  return seat != fleet.forming.seats.end() && seat->second < 0;
}

void ContinueIsolation(Fleet& fleet, double now) {
  if (fleet.hearing.isolation && !HearsAnybody(fleet, now)) GiveUpSilentSpares(fleet, now);
}

void EndIsolation(Fleet& fleet, double now) {
  if (!fleet.hearing.isolation || !fleet.hearing.isolation->may_last) return;
  fleet.hearing.isolation->may_last = false;
  fleet.forming.since = now;
}

void CheckIsolation(Fleet& fleet, double now) {
  if (!fleet.hearing.isolation || fleet.phase == Phase::kAdopting || now - fleet.forming.since < TimeToComeBack(fleet))
    return;
  fleet.hearing.isolation.reset();
  fleet.forming.seats.clear();
  if (fleet.phase == Phase::kRecovering) FillPlacesFromSpares(fleet, now);
}

}  // namespace zerofleet::coordinator
