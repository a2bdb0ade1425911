// Forming and entering a view; see view.h.
#include "coordinator/view.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/agreement.h"
#include "coordinator/away.h"
#include "coordinator/batch_shares.h"
#include "coordinator/ending.h"
#include "coordinator/environment.h"
#include "coordinator/load_phase.h"
#include "coordinator/node_runs.h"
#include "coordinator/outlived_commit.h"

namespace zerofleet::coordinator {
namespace {

constexpr Agreement<v1::Entered> kEnteredAgreements[] = {
    {"layout", "all must build the same model over the same data", &v1::Entered::layout_digest},
    {"schedule of collectives", "all must run the same steps", &v1::Entered::schedule_digest}};

void PutInRankOrder(Fleet& fleet) {
  MemberList& members = fleet.members;
  const bool kept = std::all_of(members.begin(), members.end(), [](const Member& member) { return member.rank >= 0; });
  if (kept) return members.StableSort([](const Member& a, const Member& b) { return a.rank < b.rank; });
  std::vector<MemberPlace> places;
  for (const Member& member : members) {
    places.push_back({NodeNameOf(member.hello), member.hello.host(), member.hello.pid()});
  }
  std::vector<Member> joined = members.TakeAll();
  for (int index : RankOrder(places)) {
    joined[index].rank = static_cast<int>(members.size());
    members.push_back(std::move(joined[index]));
  }
}

v1::Member EntryOf(const View& view, const Member& member) {
  v1::Member entry;
  entry.set_rank(member.rank);
  entry.set_host(member.hello.host());
  entry.set_node_name(member.hello.node_name());
  entry.set_pid(member.hello.pid());
  entry.set_transport_address(member.ready.transport_address());
  entry.set_service_address(member.hello.service_address());
  entry.set_node(view.nodes[member.rank]);
  return entry;
}

int TeamOf(const Fleet& fleet, const std::vector<int>& nodes) {
  if (SumsInSampleOrder(fleet.parameters.config)) return kMostRanks;  // one team, however many ranks there are
  if (fleet.team > 0) return fleet.team;
  const FleetParameters& parameters = fleet.parameters;
  const absl::StatusOr<int> configured = ConfiguredTeam(parameters.config.parallel());
  if (configured.ok() && *configured > 0) return *configured;
  if (!parameters.candidates.empty() && parameters.candidates.front().team > 0) {
    return parameters.candidates.front().team;
  }
  return AutoTeam(nodes, parameters.config.parallel().tensor());
}

// What is wrong with the placement of tensor groups, which communicate in every layer; empty if each is on one node.
std::string AcrossNodes(const Fleet& fleet) {
  const std::optional<std::pair<int, int>> group = GroupAcrossNodes(fleet.view->axes, kTensorGroup, fleet.view->nodes);
  if (!group) return "";
  return absl::StrCat("parallel.tensor: ", fleet.parameters.config.parallel().tensor(),
                      " does not divide the ranks of each node: the tensor group of ranks ", group->first, " to ",
                      group->second, " is on ", NodeNameOf(fleet.members[group->first].hello), " and ",
                      NodeNameOf(fleet.members[group->second].hello));
}

// With `agreement: strict` a run that has not trained yet ends if ranks differ; later, ranks that differ are refused,
// and their places are free for others. With `agreement: warn` people are told. False if no view can be formed now.
bool AgreesOnItsEnvironment(Fleet& fleet) {
  const std::optional<Strangers> strangers = SettleEnvironment(fleet);
  if (!strangers) return true;
  const bool warns = fleet.parameters.config.agreement() == "warn";
  const absl::Status refused = absl::FailedPreconditionError(strangers->text);
  if (!warns && !fleet.recovering.current) {
    FailFleet(fleet, refused, -1);
    return false;
  }
  fleet.PublishNotice(strangers->text);
  if (warns) return true;
  for (const MemberId id : strangers->members) {
    fleet.forming.vacant.insert(fleet.Find(id)->rank);
    RefuseSession(fleet, id, refused);
    fleet.members.Erase(id);
  }
  return false;
}

}  // namespace

View ViewOf(const Fleet& fleet) {
  std::vector<std::string> names;
  for (const Member& member : fleet.members) names.push_back(NodeNameOf(member.hello));
  return ViewOf(fleet, NodesOf(names));
}

View ViewOf(const Fleet& fleet, const std::vector<int>& nodes) {
  const int team = TeamOf(fleet, nodes);
  Axes axes = AxesOf(fleet.parameters.config.parallel(), static_cast<int>(nodes.size()));
  const int data_ranks = axes.Degree(kDataGroup);
  return {team, std::move(axes), nodes, PartitionMap(fleet.parameters.units, data_ranks)};
}

v1::Assignment AssignmentOf(const Fleet& fleet) {
  v1::Assignment assignment;
  assignment.set_world_size(fleet.world_size());
  assignment.set_team(fleet.view->team);
  assignment.set_partition_digest(PartitionDigest(fleet.view->partition));
  for (const Axis& axis : fleet.view->axes.list()) {
    v1::Axis& entry = *assignment.add_axes();
    entry.set_name(axis.name);
    entry.set_degree(axis.degree);
  }
  if (fleet.world_size() <= fleet.parameters.most_inline_ranks) {
    for (const Member& member : fleet.members) *assignment.add_members() = EntryOf(*fleet.view, member);
    return assignment;
  }
  SetNodeRuns(*fleet.view, &assignment);
  return assignment;
}

void OnPeersWanted(Fleet& fleet, const Member& member, const v1::PeersWanted& wanted) {
  if (!fleet.view) return;
  v1::CoordinatorMessage message;
  v1::Peers& peers = *message.mutable_peers();
  for (int rank : wanted.ranks()) {
    const bool known = rank >= 0 && rank < fleet.world_size();
    if (known) *peers.add_members() = EntryOf(*fleet.view, fleet.members[rank]);
  }
  fleet.Send(member.id, std::move(message), "it wants to reach them");
}

void NewGeneration(Fleet& fleet) {
  ++fleet.generation;
  fleet.Emit(PersistState{StateOf(fleet)}, absl::StrCat("generation ", fleet.generation, " must outlive this process"));
}

void TakePlace(Fleet& fleet, Member& member) {
  if (fleet.forming.vacant.empty()) return;  // the view is being resized: its ranks are assigned when it forms
  auto place = fleet.forming.vacant.begin();
  if (const auto seat = fleet.forming.seats.find(member.hello.incarnation()); seat != fleet.forming.seats.end()) {
    const auto own = fleet.forming.vacant.find(seat->second);
    if (own != fleet.forming.vacant.end()) place = own;
  }
  member.rank = *place;
  fleet.forming.vacant.erase(place);
}

void FormViewIfComplete(Fleet& fleet, double now) {
  if (!fleet.All(MemberState::kReady) || AwaitsCommit(fleet)) return;
  SettleLateAnswers(fleet);
  // A worker that trains may be slower to come back than a spare.
  const bool expected = fleet.phase == Phase::kForming && fleet.forming.restarted;
  if (expected && now - fleet.began < AdoptionSeconds(fleet.parameters.config.restart())) return;
  PutInRankOrder(fleet);
  if (!AgreesOnItsEnvironment(fleet)) return;
  if (fleet.recovering.current) {
    fleet.recovering.current->formed = now;  // the loss has begun a new generation already
  } else {
    NewGeneration(fleet);
  }
  fleet.counters.rendezvous_seconds = now - fleet.forming.since;
  fleet.phase = Phase::kLoading;
  fleet.loading.progress = now;
  fleet.hearing.isolation.reset();
  fleet.forming.seats.clear();
  fleet.view = ViewOf(fleet);
  fleet.team = fleet.view->team;
  if (const std::string across = AcrossNodes(fleet); !across.empty()) {
    if (!fleet.recovering.current) return FailFleet(fleet, absl::FailedPreconditionError(across), -1);
    fleet.PublishNotice(across);  // slower, but the same bits
  }
  v1::CoordinatorMessage message;
  *message.mutable_assignment() = AssignmentOf(fleet);
  const std::string reason = absl::StrCat("all ", fleet.world_size(), " are ready; ranks ",
                                          fleet.recovering.current ? "are kept" : "follow hosts");
  for (Member& member : fleet.members) {
    member.state = MemberState::kLoading;
    member.last_heard = now;
    message.mutable_assignment()->set_rank(member.rank);
    SetRanges(fleet.view->OwnedBy(member.rank), message.mutable_assignment()->mutable_owned());
    fleet.Send(member.id, message, reason);
  }
  for (const std::string& notice : std::exchange(fleet.parameters.notices, {})) fleet.PublishNotice(notice);
}

void OnEntered(Fleet& fleet, Member& member, const v1::Entered& entered, double now) {
  if (!fleet.view || member.entered) return;  // a repetition
  const auto earlier = std::find_if(fleet.members.begin(), fleet.members.end(),
                                    [](const Member& other) { return other.entered.has_value(); });
  member.entered = entered;
  ++fleet.view->entered;
  fleet.loading.progress = now;
  if (earlier != fleet.members.end()) {
    const absl::Status agreed =
        CheckAgreement(kEnteredAgreements, NameOf(*earlier), *earlier->entered, NameOf(member), entered);
    if (!agreed.ok()) return FailFleet(fleet, agreed, -1);
  }
  if (fleet.AllEntered()) BeginLoad(fleet, now);
}

}  // namespace zerofleet::coordinator
