// The communicators of one rank in one view: one for each of its groups, from one endpoint.
#ifndef ZEROFLEET_WORKER_PARALLEL_GROUP_COMMUNICATORS_H_
#define ZEROFLEET_WORKER_PARALLEL_GROUP_COMMUNICATORS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/collective/endpoint.h"
#include "worker/parallel/mesh.h"

namespace zerofleet::parallel {

class GroupCommunicators {
 public:
  // Joins the data group, and the groups of other axes that have several ranks. `addresses` are those of the view's
  // ranks, by rank. Returns the errors of CollectiveEndpoint::Join.
  static absl::StatusOr<GroupCommunicators> Join(const Mesh& mesh, const std::vector<std::string>& addresses,
                                                 collective::CollectiveEndpoint& endpoint,
                                                 const collective::PeerTrust& trust = {});
  // Takes communicators made elsewhere, the data group's among them.
  explicit GroupCommunicators(std::vector<std::unique_ptr<collective::Communicator>> communicators);

  collective::Communicator& data() const { return Of(kDataGroup); }
  // The communicator of a group that was joined.
  collective::Communicator& Of(std::string_view group) const;
  const std::vector<std::unique_ptr<collective::Communicator>>& all() const { return communicators_; }

  // Every operation of every group, the one in progress included, returns `reason` at once. May be called by any
  // thread; idempotent.
  void Abort(const absl::Status& reason) const;

 private:
  std::vector<std::unique_ptr<collective::Communicator>> communicators_;
};

}  // namespace zerofleet::parallel

#endif  // ZEROFLEET_WORKER_PARALLEL_GROUP_COMMUNICATORS_H_
