// Asking page by page; see peer_pages.h.
#include "worker/trainer/peer_pages.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/placement.h"

namespace zerofleet::trainer {
namespace {

void Note(const v1::Member& member, const parallel::Mesh& mesh, PeerAddresses& addresses) {
  addresses.transport[member.rank()] = member.transport_address();
  if (member.rank() == mesh.replica_holder()) addresses.replica_holder = member.service_address();
}

// Fetches one page. The answer must have all of the ranks wanted, and no others.
absl::Status Fetch(const v1::PeersWanted& wanted, const parallel::Mesh& mesh, const AskForPeers& ask,
                   PeerAddresses& addresses) {
  ZF_ASSIGN_OR_RETURN(const v1::Peers peers, ask(wanted));
  bool same = peers.members_size() == wanted.ranks_size();
  for (int i = 0; same && i < wanted.ranks_size(); ++i) {
    same = peers.members(i).rank() == wanted.ranks(i);
    if (same) Note(peers.members(i), mesh, addresses);
  }
  if (same) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the coordinator was asked for ", wanted.ranks_size(), " ranks from ",
                                          wanted.ranks(0), " on and told of ", peers.members_size(),
                                          ", not all of them the same"));
}

}  // namespace

absl::StatusOr<PeerAddresses> PeersOf(const v1::Assignment& assignment, const parallel::Mesh& mesh,
                                      const AskForPeers& ask) {
  PeerAddresses addresses;
  addresses.transport.resize(mesh.world_size());
  for (const v1::Member& member : assignment.members()) Note(member, mesh, addresses);
  if (!assignment.members().empty()) return addresses;
  std::set<int> ranks;
  for (const parallel::Group& group : mesh.groups()) ranks.insert(group.ranks.begin(), group.ranks.end());
  v1::PeersWanted wanted;
  for (int rank : ranks) {
    wanted.add_ranks(rank);
    if (wanted.ranks_size() < coordinator::kMostPeersWanted && rank != *ranks.rbegin()) continue;
    ZF_RETURN_IF_ERROR(Fetch(wanted, mesh, ask, addresses));
    wanted.Clear();
  }
  return addresses;
}

}  // namespace zerofleet::trainer
