// Joining and agreement; see rendezvous.h.
#include "coordinator/rendezvous.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/ending.h"
#include "coordinator/view.h"

namespace zerofleet {
namespace {

// What members must agree on in their Hello and their Ready; a row each.
struct HelloAgreement {
  const char* what;
  const std::string& (v1::Hello::*value)() const;
};
constexpr HelloAgreement kHelloAgreements[] = {
    {"version", &v1::Hello::version}, {"build", &v1::Hello::build_id}, {"device", &v1::Hello::device}};

struct ReadyAgreement {
  const char* what;
  const char* remedy;
  const std::string& (v1::Ready::*value)() const;
};
constexpr ReadyAgreement kReadyAgreements[] = {
    {"configuration", "give all workers the same", &v1::Ready::config_digest},
    {"layout", "all must build the same model over the same data", &v1::Ready::layout_digest},
    {"schedule of collectives", "all must run the same steps", &v1::Ready::schedule_digest}};

absl::Status CheckHello(const v1::Hello& first, const v1::Hello& hello) {
  for (const HelloAgreement& agreement : kHelloAgreements) {
    const std::string& expected = (first.*agreement.value)();
    const std::string& got = (hello.*agreement.value)();
    if (expected == got) continue;
    return absl::FailedPreconditionError(absl::StrCat("workers differ in their ", agreement.what, ": ", PlaceOf(first),
                                                      " has ", expected, ", ", PlaceOf(hello), " has ", got,
                                                      "; all must run the same executable on the same kind of device"));
  }
  return absl::OkStatus();
}

absl::Status CheckReady(const Member& first, const Member& member) {
  for (const ReadyAgreement& agreement : kReadyAgreements) {
    const std::string& expected = (first.ready.*agreement.value)();
    const std::string& got = (member.ready.*agreement.value)();
    if (expected == got) continue;
    return absl::FailedPreconditionError(absl::StrCat("workers differ in their ", agreement.what, ": ",
                                                      PlaceOf(first.hello), " has ", expected, ", ",
                                                      PlaceOf(member.hello), " has ", got, "; ", agreement.remedy));
  }
  return absl::OkStatus();
}

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
  absl::Status agreed = CheckHello(fleet.members.front().hello, hello);
  if (!agreed.ok()) return FailFleet(fleet, agreed, -1);
  v1::CoordinatorMessage message;
  *message.mutable_welcome()->mutable_config() = fleet.parameters.config;
  message.mutable_welcome()->set_run(fleet.parameters.run);
  fleet.Send(id, message, absl::StrCat(fleet.members.size(), " of ", fleet.world_size(), " joined"));
}

void OnReady(Fleet& fleet, Member& member, const v1::Ready& ready, double now) {
  if (member.state != MemberState::kJoined) return;  // a repetition
  member.state = MemberState::kReady;
  member.ready = ready;
  auto first = std::find_if(fleet.members.begin(), fleet.members.end(),
                            [](const Member& other) { return other.state == MemberState::kReady; });
  absl::Status agreed = CheckReady(*first, member);
  if (!agreed.ok()) return FailFleet(fleet, agreed, -1);
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
