// A rank's place in a view: its number along each axis of the view, its node, and the groups of ranks that they make.
//
// A view is what the coordinator hands out: the ranks of one generation. Whoever needs a rank, a number of ranks or a
// group takes it from the mesh of its view, never from the configuration or from arithmetic on ranks.
#ifndef ZEROFLEET_WORKER_PARALLEL_MESH_H_
#define ZEROFLEET_WORKER_PARALLEL_MESH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/axes.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::parallel {

using coordinator::kDataGroup;
using coordinator::kTensorGroup;

// Ranks of the view that communicate with each other, as one of them sees it.
struct Group {
  std::string name;
  int rank = 0;            // this rank's number in the group
  std::vector<int> ranks;  // ranks of the view, by number in the group
  int team = 0;            // consecutive ranks of the group that are summed together first; at most its size
  std::vector<int> nodes;  // node of each rank, by number in the group

  int size() const { return static_cast<int>(ranks.size()); }
};

class Mesh {
 public:
  // The receiver's place in the view of `generation`. Internal, naming the field, for an assignment that does not have
  // the form that coordinator/placement.h gives: nothing is computed from an unchecked assignment.
  static absl::StatusOr<Mesh> Create(const v1::Assignment& assignment, uint64_t generation);

  // A view that no coordinator hands out, of ranks on one node in one team: for plans, benches and tests.
  // `tensor` divides `world_size`.
  static Mesh OfOneNode(int rank, int world_size, int tensor = 1);

  uint64_t generation() const { return generation_; }
  int rank() const { return rank_; }
  int world_size() const { return axes_.world_size(); }
  int nodes() const { return nodes_.back() + 1; }
  // The team size that the coordinator decided; may be larger than a group.
  int team() const { return team_; }
  const coordinator::Axes& axes() const { return axes_; }

  // Ranks of the view: the one that keeps the copies of this rank's snapshots, and the one whose copies this rank
  // keeps. Both are this rank where its data group has no other.
  int replica_holder() const { return ShiftedInData(+1); }
  int replica_owner() const { return ShiftedInData(-1); }

  // This rank's groups, one for each axis; groups of equal names share no rank.
  const std::vector<Group>& groups() const { return groups_; }
  const Group& group(std::string_view name) const;
  const Group& data() const { return group(kDataGroup); }
  const Group& tensor() const { return group(kTensorGroup); }

 private:
  Mesh(uint64_t generation, int rank, int team, coordinator::Axes axes, std::vector<int> nodes);
  int ShiftedInData(int direction) const;

  uint64_t generation_;
  int rank_, team_;
  coordinator::Axes axes_;
  std::vector<int> nodes_;     // by rank
  std::vector<Group> groups_;  // the slowest axis's first
};

}  // namespace zerofleet::parallel

#endif  // ZEROFLEET_WORKER_PARALLEL_MESH_H_
