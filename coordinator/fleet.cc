// Lookups, names and the output list of a fleet; see fleet.h.
#include "coordinator/fleet.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kForming: return "forming";
    case Phase::kAdopting: return "adopting";
    case Phase::kLoading: return "loading";
    case Phase::kTraining: return "training";
    case Phase::kRecovering: return "recovering";
    case Phase::kFinishing: return "finishing";
    case Phase::kDone: return "done";
    case Phase::kFailed: return "failed";
  }
  return "";
}

const char* Name(MemberState state) {
  switch (state) {
    case MemberState::kSpare: return "spare";
    case MemberState::kJoined: return "joined";
    case MemberState::kReady: return "ready";
    case MemberState::kLoading: return "loading";
    case MemberState::kTraining: return "training";
    case MemberState::kFinished: return "finished";
    case MemberState::kLost: return "lost";
    case MemberState::kAway: return "away";
  }
  return "";
}

Member* Fleet::Find(MemberId id) {
  for (std::vector<Member>* group : {&members, &spares}) {
    auto found = std::find_if(group->begin(), group->end(), [id](const Member& member) { return member.id == id; });
    if (found != group->end()) return &*found;
  }
  return nullptr;
}

bool Fleet::All(MemberState state) const {
  return static_cast<int>(members.size()) == world_size() &&
         std::all_of(members.begin(), members.end(), [state](const Member& member) { return member.state == state; });
}

bool Fleet::AllEntered() const {
  return std::all_of(members.begin(), members.end(), [](const Member& member) { return member.entered.has_value(); });
}

void Fleet::Send(MemberId member, v1::CoordinatorMessage message, std::string reason) {
  message.set_generation(generation);
  Emit(SendTo{member, std::move(message)}, std::move(reason));
}

void Fleet::SendToAll(const v1::CoordinatorMessage& message, const std::string& reason) {
  for (const Member& member : members) {
    if (member.state != MemberState::kLost && member.state != MemberState::kAway) Send(member.id, message, reason);
  }
}

void Fleet::SendToSpares(const v1::CoordinatorMessage& message, const std::string& reason) {
  for (const Member& spare : spares) Send(spare.id, message, reason);
}

void Fleet::Publish(v1::Event event, std::string reason) { Emit(PublishEvent{std::move(event)}, std::move(reason)); }

void Fleet::PublishNotice(const std::string& text) {
  v1::Event event;
  event.mutable_notice()->set_message(text);
  Publish(std::move(event), "a person should know");
}

std::string PlaceOf(const v1::Hello& hello) { return absl::StrCat("host ", hello.host(), ", pid ", hello.pid()); }

std::string NameOf(const Member& member) {
  std::string who = member.rank < 0 ? "worker" : absl::StrCat("rank ", member.rank);
  return absl::StrCat(who, " (", PlaceOf(member.hello), ")");
}

CoordinatorState StateOf(const Fleet& fleet) { return {fleet.generation, fleet.last_committed_step, fleet.rollbacks}; }

std::string LastCommitText(const Fleet& fleet) {
  if (fleet.last_committed_step < 0) return "no checkpoint was committed";
  return absl::StrCat("last committed checkpoint: step ", fleet.last_committed_step);
}

}  // namespace zerofleet::coordinator
