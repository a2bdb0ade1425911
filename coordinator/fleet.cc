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

Member* Fleet::Find(MemberId id) {
  Member* member = members.Find(id);
  return member != nullptr ? member : spares.Find(id);
}

bool Fleet::All(MemberState state) const {
  return static_cast<int>(members.size()) == world_size() && members.All(state);
}

bool Fleet::AllEntered() const { return view && view->entered == world_size(); }

std::shared_ptr<const v1::CoordinatorMessage> Fleet::Stamped(v1::CoordinatorMessage message) const {
  message.set_generation(generation);
  return std::make_shared<const v1::CoordinatorMessage>(std::move(message));
}

void Fleet::Send(MemberId member, v1::CoordinatorMessage message, std::string reason) {
  Emit(SendTo{member, Stamped(std::move(message))}, std::move(reason));
}

void Fleet::SendToAll(v1::CoordinatorMessage message, const std::string& reason) {
  const std::shared_ptr<const v1::CoordinatorMessage> shared = Stamped(std::move(message));
  for (const Member& member : members) {
    if (member.state != MemberState::kLost && member.state != MemberState::kAway) {
      Emit(SendTo{member.id, shared}, reason);
    }
  }
}

void Fleet::SendToSpares(v1::CoordinatorMessage message, const std::string& reason) {
  const std::shared_ptr<const v1::CoordinatorMessage> shared = Stamped(std::move(message));
  for (const Member& spare : spares) Emit(SendTo{spare.id, shared}, reason);
}

void Fleet::Publish(v1::Event event, std::string reason) { Emit(PublishEvent{std::move(event)}, std::move(reason)); }

void Fleet::PublishNotice(const std::string& text) {
  v1::Event event;
  event.mutable_notice()->set_message(text);
  Publish(std::move(event), "a person should know");
}

CoordinatorState StateOf(const Fleet& fleet) {
  constexpr size_t kMostManifests = 1000;  // the state file is written with every commit
  CoordinatorState state{fleet.generation, -1, fleet.recovering.rollbacks};
  state.run_id = fleet.parameters.run_id;
  const bool in_its_directory = fleet.parameters.may_fall_back && !fleet.saving.emptied;
  if (!in_its_directory) return state;
  state.last_committed_step = fleet.saving.last_committed_step;
  for (const CheckpointCandidate& candidate : fleet.parameters.candidates) {
    if (candidate.digest.empty() || state.manifests.size() == kMostManifests) continue;
    state.manifests.push_back({candidate.step, candidate.digest});
  }
  return state;
}

std::string LastCommitText(const Fleet& fleet) {
  if (fleet.saving.last_committed_step < 0) return "no checkpoint was committed";
  return absl::StrCat("last committed checkpoint: step ", fleet.saving.last_committed_step);
}

}  // namespace zerofleet::coordinator
