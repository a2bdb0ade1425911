// Joining and agreement; see rendezvous.h.
#include "coordinator/rendezvous.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/agreement.h"
#include "coordinator/away.h"
#include "coordinator/ending.h"
#include "coordinator/hang.h"
#include "coordinator/isolation.h"
#include "coordinator/outlived_commit.h"
#include "coordinator/recovery.h"
#include "coordinator/view.h"

namespace zerofleet::coordinator {
namespace {

constexpr char kOneExecutable[] = "all must run the same executable on the same kind of device";
constexpr Agreement<v1::Hello> kHelloAgreements[] = {{"version", kOneExecutable, &v1::Hello::version},
                                                     {"build", kOneExecutable, &v1::Hello::build_id},
                                                     {"device", kOneExecutable, &v1::Hello::device}};
constexpr Agreement<v1::Ready> kReadyAgreements[] = {
    {"configuration", "give all workers the same", &v1::Ready::config_digest}};

// A survivor that has not left its lost view yet. Either it sends Ready, or it is lost (liveness.h) and the time to
// form starts again; in the middle of a file it may take as long as the fleet may take to form.
bool IsLeaving(const Member& member) { return member.state == MemberState::kJoined && member.leaves_by > 0; }

bool HasReadySpare(const Fleet& fleet) { return std::any_of(fleet.spares.begin(), fleet.spares.end(), IsReadySpare); }

bool HasPlace(const Fleet& fleet) {
  const bool open = fleet.phase == Phase::kForming || fleet.phase == Phase::kRecovering;
  return open && static_cast<int>(fleet.members.size()) < fleet.world_size();
}

bool HasRoomForASpare(const Fleet& fleet) {
  const v1::Config& config = fleet.parameters.config;
  const int missing = fleet.phase == Phase::kForming ? 0 : config.parallel().workers() - fleet.world_size();
  return static_cast<int>(fleet.spares.size()) < config.restart().spares() + missing + fleet.members.away();
}

}  // namespace

void OnHello(Fleet& fleet, MemberId id, const v1::Hello& hello, double now) {
  const bool waits = fleet.hearing.isolation && WasASpare(fleet, hello.incarnation()) && HasRoomForASpare(fleet);
  const bool place = !waits && HasPlace(fleet), spare = !place && HasRoomForASpare(fleet);
  if (!place && !spare) {
    return RefuseSession(fleet, id,
                         absl::FailedPreconditionError(
                             absl::StrCat("the fleet has its ", fleet.world_size(), " workers (parallel.workers)",
                                          fleet.spares.empty() ? "" : " and its spares (restart.spares)",
                                          "; no place is left for ", PlaceOf(hello))));
  }
  if (!fleet.forming.hello) {
    fleet.forming.hello = hello;
    fleet.forming.hello->clear_rejoin();
  }
  const absl::Status agreed =
      CheckAgreement(kHelloAgreements, PlaceOf(*fleet.forming.hello), *fleet.forming.hello, PlaceOf(hello), hello);
  if (!agreed.ok() && fleet.phase != Phase::kForming) return RefuseSession(fleet, id, agreed);
  Member member;
  member.id = id;
  member.hello = hello;
  member.hello.clear_rejoin();
  member.came_back = hello.has_rejoin();
  member.last_heard = member.progress_since = now;
  if (spare) member.state = MemberState::kSpare;
  if (fleet.phase == Phase::kRecovering && place) TakePlace(fleet, member);
  // That its session came back says nothing about its trainer, which may hang in the lost view or be reading or writing
  // a file.
  if (member.came_back) member.leaves_by = now + std::max(HangLimit(fleet), fleet.form_timeout_seconds());
  (spare ? fleet.spares : fleet.members).push_back(member);
  if (!agreed.ok()) return FailFleet(fleet, agreed, -1);
  SendWelcome(fleet, id,
              spare ? "a spare joined" : absl::StrCat(fleet.members.size(), " of ", fleet.world_size(), " joined"));
  if (!hello.rejoin().has_assignment()) return;
  v1::CoordinatorMessage regroup;
  regroup.mutable_regroup()->set_reason("the fleet has left its view behind");
  fleet.Send(id, regroup, "its view is no more");
}

void SendWelcome(Fleet& fleet, MemberId id, const std::string& reason) {
  v1::CoordinatorMessage message;
  *message.mutable_welcome()->mutable_config() = fleet.parameters.config;
  message.mutable_welcome()->set_run(fleet.parameters.run);
  fleet.Send(id, message, reason);
}

void OnReady(Fleet& fleet, Member& member, const v1::Ready& ready, double now) {
  if (member.state == MemberState::kSpare) {
    member.ready = ready;
    const bool ranks_may_come = fleet.hearing.isolation.has_value();  // the places are theirs
    if (fleet.phase == Phase::kRecovering && !ranks_may_come) FillPlacesFromSpares(fleet, now);
    return;
  }
  if (member.state != MemberState::kJoined) return;  // a repetition
  const auto earlier = std::find_if(fleet.members.begin(), fleet.members.end(),
                                    [](const Member& other) { return other.state == MemberState::kReady; });
  member.state = MemberState::kReady;
  member.ready = ready;
  // If ranks are assigned again, there was no loss to look into, and it is no longer known which rank's record it is.
  if (fleet.phase == Phase::kRecovering && ready.has_flight() && member.rank >= 0) {
    v1::FlightRecord flight = ready.flight();
    flight.set_rank(member.rank);  // a worker reports only its own record
    AddFlight(fleet, std::move(flight));
  }
  member.ready.clear_flight();
  if (earlier != fleet.members.end()) {
    const absl::Status agreed =
        CheckAgreement(kReadyAgreements, PlaceOf(earlier->hello), earlier->ready, PlaceOf(member.hello), ready);
    if (!agreed.ok()) return FailFleet(fleet, agreed, -1);
  }
  FormViewIfComplete(fleet, now);
}

void CheckFormTimeout(Fleet& fleet, double now) {
  // A ready spare may wait for a place that became free since, for example because a member was refused.
  const bool place = fleet.phase == Phase::kRecovering && !fleet.forming.vacant.empty();
  if (place && !fleet.hearing.isolation && HasReadySpare(fleet)) FillPlacesFromSpares(fleet, now);
  const bool forms = fleet.phase == Phase::kForming || fleet.phase == Phase::kRecovering;
  if (!forms || now - fleet.forming.since < fleet.form_timeout_seconds()) return;
  if (std::any_of(fleet.members.begin(), fleet.members.end(), IsLeaving)) return;
  const bool restarted = std::exchange(fleet.forming.restarted, false);  // no more workers are expected back
  if ((OutliveCommits(fleet) || restarted) && fleet.All(MemberState::kReady)) return FormViewIfComplete(fleet, now);
  if (!AwaitsCommit(fleet) && GoOnSmaller(fleet, now)) return;
  auto ready = std::count_if(fleet.members.begin(), fleet.members.end(),
                             [](const Member& member) { return member.state == MemberState::kReady; });
  std::string text =
      absl::StrCat("the fleet did not form in ", fleet.form_timeout_seconds(), " s: ", fleet.members.size(), " of ",
                   fleet.world_size(), " workers joined, ", ready, " were ready");
  size_t waiting = 0;
  for (const Member& member : fleet.members) {
    if (member.state == MemberState::kReady || ++waiting > kMostNamed) continue;
    absl::StrAppend(&text, "; waiting for ", NameOf(member));
  }
  if (waiting > kMostNamed) absl::StrAppend(&text, "; and for ", waiting - kMostNamed, " more");
  absl::StrAppend(&text, AwaitedCommitText(fleet));
  if (fleet.recovering.current)
    absl::StrAppend(&text, "; it was recovering from: ", fleet.recovering.current->cause, "; ", LastCommitText(fleet));
  FailFleet(fleet, absl::DeadlineExceededError(text), -1);
}

}  // namespace zerofleet::coordinator
