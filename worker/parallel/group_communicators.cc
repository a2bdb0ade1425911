// Joining a mesh's groups; see group_communicators.h.
#include "worker/parallel/group_communicators.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace zerofleet::parallel {

absl::StatusOr<GroupCommunicators> GroupCommunicators::Join(const Mesh& mesh, const std::vector<std::string>& addresses,
                                                            collective::CollectiveEndpoint& endpoint,
                                                            const collective::PeerTrust& trust) {
  ZF_CHECK(static_cast<int>(addresses.size()) == mesh.world_size());
  std::vector<std::unique_ptr<collective::Communicator>> communicators;
  for (const Group& group : mesh.groups()) {
    if (group.name != kDataGroup && group.size() == 1) continue;
    collective::CollectiveGroup joining{.name = group.name,
                                        .rank = group.rank,
                                        .generation = mesh.generation(),
                                        .team = group.team,
                                        .nodes = group.nodes,
                                        .trust = trust};
    for (int rank : group.ranks) joining.addresses.push_back(addresses[rank]);
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<collective::Communicator> communicator, endpoint.Join(joining));
    communicators.push_back(std::move(communicator));
  }
  return GroupCommunicators(std::move(communicators));
}

GroupCommunicators::GroupCommunicators(std::vector<std::unique_ptr<collective::Communicator>> communicators)
    : communicators_(std::move(communicators)) {}

collective::Communicator& GroupCommunicators::Of(std::string_view group) const {
  for (const std::unique_ptr<collective::Communicator>& communicator : communicators_) {
    if (communicator->group() == group) return *communicator;
  }
  ZF_CHECK(false && "a group that was not joined");
  return *communicators_.front();
}

void GroupCommunicators::Abort(const absl::Status& reason) const {
  for (const std::unique_ptr<collective::Communicator>& communicator : communicators_) communicator->Abort(reason);
}

}  // namespace zerofleet::parallel
