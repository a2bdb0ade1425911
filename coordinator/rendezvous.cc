// Joining and agreement; see rendezvous.h.
#include "coordinator/rendezvous.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/agreement.h"
#include "coordinator/ending.h"
#include "coordinator/view.h"

namespace zerofleet {
namespace {

constexpr char kOneExecutable[] = "all must run the same executable on the same kind of device";
constexpr Agreement<v1::Hello> kHelloAgreements[] = {{"version", kOneExecutable, &v1::Hello::version},
                                                     {"build", kOneExecutable, &v1::Hello::build_id},
                                                     {"device", kOneExecutable, &v1::Hello::device}};
constexpr Agreement<v1::Ready> kReadyAgreements[] = {
    {"configuration", "give all workers the same", &v1::Ready::config_digest}};

}  // namespace

void OnHello(Fleet& fleet, MemberId id, const v1::Hello& hello, double now) {
  if (fleet.Find(id) != nullptr) return;  // a repetition
  if (fleet.phase != Phase::kForming || static_cast<int>(fleet.members.size()) >= fleet.world_size()) {
    RefuseSession(fleet, id,
                  absl::FailedPreconditionError(absl::StrCat("the fleet has its ", fleet.world_size(),
                                                             " workers (parallel.workers); no place is left for ",
                                                             PlaceOf(hello))));
    return;
  }
  Member member;
  member.id = id;
  member.hello = hello;
  member.last_heard = member.progress_since = now;
  fleet.members.push_back(member);
  const v1::Hello& first = fleet.members.front().hello;
  const absl::Status agreed = CheckAgreement(kHelloAgreements, PlaceOf(first), first, PlaceOf(hello), hello);
  if (!agreed.ok()) return FailFleet(fleet, agreed, -1);
  v1::CoordinatorMessage message;
  *message.mutable_welcome()->mutable_config() = fleet.parameters.config;
  message.mutable_welcome()->set_run(fleet.parameters.run);
  fleet.Send(id, message, absl::StrCat(fleet.members.size(), " of ", fleet.world_size(), " joined"));
}

void OnReady(Fleet& fleet, Member& member, const v1::Ready& ready, double now) {
  if (member.state != MemberState::kJoined) return;  // a repetition
  const auto earlier = std::find_if(fleet.members.begin(), fleet.members.end(),
                                    [](const Member& other) { return other.state == MemberState::kReady; });
  member.state = MemberState::kReady;
  member.ready = ready;
  if (earlier != fleet.members.end()) {
    const absl::Status agreed =
        CheckAgreement(kReadyAgreements, PlaceOf(earlier->hello), earlier->ready, PlaceOf(member.hello), ready);
    if (!agreed.ok()) return FailFleet(fleet, agreed, -1);
  }
  if (fleet.All(MemberState::kReady)) FormView(fleet, now);
}

void CheckFormTimeout(Fleet& fleet, double now) {
  if (fleet.phase != Phase::kForming || now - fleet.began < fleet.form_timeout_seconds()) return;
  auto ready = std::count_if(fleet.members.begin(), fleet.members.end(),
                             [](const Member& member) { return member.state == MemberState::kReady; });
  std::string text =
      absl::StrCat("the fleet did not form in ", fleet.form_timeout_seconds(), " s: ", fleet.members.size(), " of ",
                   fleet.world_size(), " workers joined, ", ready, " were ready");
  for (const Member& member : fleet.members) {
    if (member.state != MemberState::kReady) absl::StrAppend(&text, "; waiting for ", NameOf(member));
  }
  FailFleet(fleet, absl::DeadlineExceededError(text), -1);
}

}  // namespace zerofleet
