// Rebuilding a view from what its ranks report; see adoption.h.
#include "coordinator/adoption.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/away.h"
#include "coordinator/divergence.h"
#include "coordinator/ending.h"
#include "coordinator/liveness.h"
#include "coordinator/load_phase.h"
#include "coordinator/node_runs.h"
#include "coordinator/placement.h"
#include "coordinator/recovery.h"
#include "coordinator/rendezvous.h"
#include "coordinator/stop.h"
#include "coordinator/view.h"

namespace zerofleet::coordinator {
namespace {

using google::protobuf::util::MessageDifferencer;

Member* FindProcess(Fleet& fleet, const std::string& incarnation) {
  Member* member = fleet.members.FindProcess(incarnation);
  return member != nullptr ? member : fleet.spares.FindProcess(incarnation);
}

// What all ranks of a view know about it. If `nodes` gives the places, `members` are only those that this rank can
// name, and are left out.
v1::Assignment Shared(v1::Assignment assignment) {
  assignment.clear_rank();
  if (!assignment.nodes().empty()) assignment.clear_members();
  return assignment;
}

void TakePlace(v1::Hello& hello, const v1::Member& told) {
  hello.set_host(told.host());
  hello.set_node_name(told.node_name());
  hello.set_pid(told.pid());
}

// Takes the names of the members that a rank of a large view knows, for messages about those that never come back.
void NameTheAway(Fleet& fleet, const v1::Assignment& assignment) {
  if (assignment.nodes().empty()) return;
  for (const v1::Member& named : assignment.members()) {
    if (named.rank() < 0 || named.rank() >= fleet.world_size()) continue;
    Member& member = fleet.members[named.rank()];
    if (!IsAway(member) || !member.hello.host().empty()) continue;
    TakePlace(member.hello, named);
  }
}

// Sets `fleet`'s view to what this coordinator makes of the members that `told` describes; an error if that is not
// `told`.
absl::Status Rebuild(Fleet& fleet, const v1::Assignment& told, double now) {
  const int size = told.world_size();
  const v1::Config& config = fleet.parameters.config;
  const absl::StatusOr<std::vector<int>> nodes = NodesOf(told);
  if (size < 1 || size > config.parallel().workers() || !nodes.ok() || size % config.parallel().tensor() != 0 ||
      told.team() < 1 || told.team() > kMostRanks) {
    return absl::FailedPreconditionError(
        absl::StrCat("a view of ", size, " ranks in teams of ", told.team(), " is none of this run's"));
  }
  for (int rank = 0; rank < size; ++rank) {
    Member member;
    member.rank = rank;
    member.id = AwayId(member.rank);
    member.state = MemberState::kAway;
    if (rank < told.members_size()) {
      TakePlace(member.hello, told.members(rank));
    }
    member.last_heard = member.progress_since = now;
    fleet.members.push_back(std::move(member));
  }
  fleet.places = size;
  fleet.team = told.team();
  fleet.view = told.members().empty() ? ViewOf(fleet, *nodes) : ViewOf(fleet);
  if (MessageDifferencer::Equals(AssignmentOf(fleet), told)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "its view is not what this coordinator makes of the same members; all must run the same executable");
}

absl::Status BeginAdoption(Fleet& fleet, const v1::Hello& hello, double now) {
  const v1::Rejoin& rejoin = hello.rejoin();
  if (rejoin.config_digest() != fleet.config_digest) {
    return absl::FailedPreconditionError(
        "the running fleet has another configuration; start its coordinator with the run's own");
  }
  Fleet rebuilt;
  rebuilt.parameters = fleet.parameters;
  const v1::Assignment told = Shared(rejoin.assignment());
  const absl::Status status = Rebuild(rebuilt, told, now);
  if (!status.ok()) return status;
  for (Member& early : fleet.members.TakeAll()) {  // new workers were faster than the ranks
    early.state = MemberState::kSpare;
    fleet.spares.push_back(std::move(early));
  }
  fleet.members = std::move(rebuilt.members);
  fleet.view = std::move(rebuilt.view);
  fleet.team = rebuilt.team;
  fleet.places = rebuilt.places;
  fleet.adopting.told = told;
  fleet.forming.hello = hello;
  fleet.forming.hello->clear_rejoin();
  fleet.phase = Phase::kAdopting;
  fleet.forming.since = now;
  const FleetParameters& parameters = fleet.parameters;
  if (parameters.may_fall_back && !parameters.candidates.empty()) {  // all commits in the run's directory
    fleet.saving.committed_by_run = parameters.candidates.front().step;
    fleet.saving.last_committed_path = parameters.candidates.front().path;
  }
  return absl::OkStatus();
}

// This coordinator's assignment, as a session's journal keeps it for a Rejoin.
v1::Assignment Kept(v1::Assignment assignment) {
  for (v1::Member& member : *assignment.mutable_members()) {
    member.clear_transport_address();
    member.clear_service_address();
  }
  return assignment;
}

// Publishes what watchers were told before; they know which of it is new to them.
void TellAgain(Fleet& fleet, const Member& member) {
  PublishStart(fleet, member, fleet.training.start_step > 0);
  std::vector<CheckpointCandidate> candidates = fleet.parameters.candidates;
  std::reverse(candidates.begin(), candidates.end());
  for (const CheckpointCandidate& candidate : candidates) {
    if (candidate.generation != fleet.generation) continue;
    v1::Event event;
    event.mutable_checkpoint()->set_step(candidate.step);
    event.mutable_checkpoint()->set_path(candidate.path);
    event.mutable_checkpoint()->set_bytes(candidate.bytes);
    fleet.Publish(std::move(event), "this generation has committed it");
  }
}

void NoteTraining(Fleet& fleet, Member& member, const v1::Rejoin& rejoin, double now) {
  member.state = MemberState::kTraining;
  member.save_since = now;
  member.step = std::max(rejoin.step(), rejoin.start().step());
  const double began = now - rejoin.training_seconds();
  if (fleet.training.began == 0) {
    fleet.training.began = began;
    fleet.training.start_step = rejoin.start().step();
    fleet.training.first_step = rejoin.first_step();
    TakeStart(fleet, rejoin.start());
    fleet.training.generation = fleet.generation;
    return TellAgain(fleet, member);
  }
  fleet.training.began = std::min(fleet.training.began, began);
  fleet.training.first_step = std::min(fleet.training.first_step, rejoin.first_step());
}

// Refuses new workers before those that the fleet had as spares.
void RefuseSurplusSpares(Fleet& fleet) {
  const v1::Config& config = fleet.parameters.config;
  const size_t most = config.restart().spares() + config.parallel().workers() - fleet.world_size();
  fleet.spares.StableSort([](const Member& a, const Member& b) { return a.came_back > b.came_back; });
  while (fleet.spares.size() > most) {
    RefuseSession(fleet, fleet.spares.back().id,
                  absl::FailedPreconditionError("the running fleet is complete; no place is left"));
    fleet.spares.pop_back();
  }
}

// "the coordinator was started again"
std::string WhatHappened(const Fleet& fleet) {
  if (!fleet.hearing.isolation) return "the coordinator was started again";
  return absl::StrFormat("the coordinator heard nobody for %.1f s",
                         fleet.forming.since - fleet.hearing.isolation->since + fleet.heartbeat_timeout_seconds());
}

void CompleteAdoption(Fleet& fleet, double now) {
  const std::string happened = WhatHappened(fleet);
  fleet.hearing.isolation.reset();
  if (fleet.training.began == 0) return RegroupAll(fleet, "the coordinator was lost before training began", now);
  fleet.phase = Phase::kTraining;
  v1::CoordinatorMessage start;
  *start.mutable_start() = fleet.training.start;
  for (Member& member : fleet.members) {
    if (member.state == MemberState::kFinished) {
      fleet.phase = Phase::kFinishing;
      fleet.finishing.since = now;
    }
    member.progress_since = now;
    if (member.state != MemberState::kLoading) continue;
    member.state = MemberState::kTraining;
    member.step = fleet.training.start_step;
    fleet.Send(member.id, start, "every rank had loaded, since another trains");
  }
  fleet.PublishNotice(absl::StrCat(happened, ": generation ", fleet.generation, " trains on, all ", fleet.world_size(),
                                   " ranks are back"));
  RefuseSurplusSpares(fleet);
  if (fleet.finishing.stop_reason) TellStop(fleet);
  if (fleet.adopting.diverged) GoBack(fleet, *fleet.adopting.diverged, now);
}

void Adopt(Fleet& fleet, MemberId id, const v1::Hello& hello, double now) {
  if (fleet.phase == Phase::kForming) {
    const absl::Status status = BeginAdoption(fleet, hello, now);
    if (!status.ok()) return RefuseSession(fleet, id, status);
  }
  const v1::Rejoin& rejoin = hello.rejoin();
  const int rank = rejoin.assignment().rank();
  if (!MessageDifferencer::Equals(Shared(rejoin.assignment()), *fleet.adopting.told) || rank < 0 ||
      rank >= fleet.world_size()) {
    return RefuseSession(
        fleet, id,
        absl::FailedPreconditionError(absl::StrCat(PlaceOf(hello), " was in another view of generation ",
                                                   fleet.generation, " than the ranks that came back before")));
  }
  Member& member = fleet.members[rank];
  if (!IsAway(member)) {
    return RefuseSession(fleet, id,
                         absl::AlreadyExistsError(
                             absl::StrCat(NameOf(member), " is back; ", PlaceOf(hello), " says it is that rank, too")));
  }
  v1::Hello known = hello;
  known.clear_rejoin();
  fleet.members.Rename(member, id, std::move(known));
  NameTheAway(fleet, rejoin.assignment());
  member.ready.set_parameters(rejoin.parameters());
  member.state = MemberState::kLoading;
  member.last_heard = now;
  const int away = fleet.members.away();
  SendWelcome(fleet, id, absl::StrCat(fleet.world_size() - away, " of ", fleet.world_size(), " ranks are back"));
  if (rejoin.has_start()) NoteTraining(fleet, member, rejoin, now);
  if (away == 0) CompleteAdoption(fleet, now);
}

// Whether the process may continue in its place, having missed nothing that it needs.
bool GoesOn(const Fleet& fleet, const Member& member, const v1::Rejoin& rejoin) {
  const bool trains = member.state == MemberState::kTraining || member.state == MemberState::kFinished;
  return trains && rejoin.has_start() && rejoin.generation() == fleet.generation &&
         rejoin.assignment().rank() == member.rank;
}

void TakeSession(Fleet& fleet, Member& member, MemberId id, double now) {
  fleet.Emit(CloseSession{member.id}, absl::StrCat(NameOf(member), " has opened another stream"));
  fleet.members.Rename(member, id);
  member.closed = false;
  member.last_heard = now;
  SendWelcome(fleet, id, "it goes on");
  if (fleet.finishing.stop_reason && fleet.phase != Phase::kAdopting) TellStop(fleet);
}

// The spare's new session sends its Ready again.
void TakeSpareSession(Fleet& fleet, Member& spare, MemberId id, double now) {
  fleet.Emit(CloseSession{spare.id}, absl::StrCat("spare ", NameOf(spare), " has opened another stream"));
  fleet.spares.Rename(spare, id);
  spare.last_heard = now;
  SendWelcome(fleet, id, "it is a spare again");
}

}  // namespace

absl::Status OlderThanTheFleet(const Fleet& fleet, const std::string& who, uint64_t generation) {
  return absl::FailedPreconditionError(absl::StrCat(who, " is in generation ", generation, ", this coordinator in ",
                                                    fleet.generation,
                                                    ": its state is older than the fleet; use the newest --state-dir"));
}

bool OnRejoin(Fleet& fleet, MemberId id, const v1::Hello& hello, double now) {
  Member* twin = FindProcess(fleet, hello.incarnation());
  if (!hello.has_rejoin()) {
    if (twin == nullptr) return false;
    const std::string who = absl::StrCat(NameOf(*twin), " is there; ", PlaceOf(hello), " is a copy of that process");
    RefuseSession(fleet, id, absl::AlreadyExistsError(who));
    return true;
  }
  const v1::Rejoin& rejoin = hello.rejoin();
  if (rejoin.generation() > fleet.generation) {
    const absl::Status older = OlderThanTheFleet(fleet, PlaceOf(hello), rejoin.generation());
    RefuseSession(fleet, id, older);
    FailFleet(fleet, older, -1);
    return true;
  }
  if (twin != nullptr) {
    if (twin->state == MemberState::kSpare && !rejoin.has_assignment()) {
      TakeSpareSession(fleet, *twin, id, now);
      return true;
    }
    if (GoesOn(fleet, *twin, rejoin)) {
      TakeSession(fleet, *twin, id, now);
      return true;
    }
    OnSessionClosed(fleet, *twin, "its process opened another stream", now);
    if (fleet.ended()) return true;
  }
  const bool forming = fleet.phase == Phase::kForming;
  fleet.forming.restarted = fleet.forming.restarted || forming;
  if (!rejoin.has_assignment()) return false;
  if ((forming || fleet.phase == Phase::kAdopting) && rejoin.generation() == fleet.generation) {
    Adopt(fleet, id, hello, now);
    return true;
  }
  if (forming || fleet.phase == Phase::kRecovering) return false;
  ++fleet.counters.stale_messages_rejected;
  RefuseSession(
      fleet, id,
      absl::FailedPreconditionError(absl::StrCat(PlaceOf(hello), " is in generation ", rejoin.generation(),
                                                 ", which the fleet, in ", fleet.generation, ", has left behind")));
  return true;
}

void BeginAwaiting(Fleet& fleet) {
  fleet.adopting.told = Shared(Kept(AssignmentOf(fleet)));
  fleet.phase = Phase::kAdopting;
  fleet.hearing.suspicion.reset();  // ranks that have reported a failure report it again
  fleet.hearing.verdicts.reset();
}

void CheckAdoption(Fleet& fleet, double now) {
  if (now - fleet.forming.since < TimeToComeBack(fleet)) return;
  std::vector<MemberId> away;
  for (const Member& member : fleet.members) {
    if (IsAway(member)) away.push_back(member.id);
  }
  const bool isolated = std::exchange(fleet.hearing.isolation, std::nullopt).has_value();
  LoseMembers(fleet, away,
              absl::StrCat("it did not come back to the coordinator, which ",
                           isolated ? "had heard nobody" : "was started again"),
              isolated ? "heartbeat_timeout" : "session_ended", now);
}

}  // namespace zerofleet::coordinator
