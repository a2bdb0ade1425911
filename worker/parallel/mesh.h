// A rank's place in a view: its coordinates (node, team, data, tensor), and the groups of ranks that they make.
//
// A view is what the coordinator hands out: the ranks of one generation. Whoever needs a rank, a number of ranks or a
// group asks the mesh of the view it is in; neither the configuration nor arithmetic on ranks says it.
#ifndef ZEROFLEET_WORKER_PARALLEL_MESH_H_
#define ZEROFLEET_WORKER_PARALLEL_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/placement.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::parallel {

using coordinator::kDataGroup;
using coordinator::kTensorGroup;

// Ranks of the view that communicate with each other, as one of them sees it.
struct Group {
  std::string name;
  int rank = 0;            // this rank's number in the group
  std::vector<int> ranks;  // of the view, by their number in the group
  int team = 0;            // consecutive ranks of the group that are summed together first; at most its size
  std::vector<int> nodes;  // by number in the group

  int size() const { return static_cast<int>(ranks.size()); }
};

class Mesh {
 public:
  // The receiver's place in the view of `generation`. Internal, naming the field, for an assignment that is not
  // of the form that coordinator/placement.h gives: nothing is computed from one that was not checked.
  static absl::StatusOr<Mesh> Create(const v1::Assignment& assignment, uint64_t generation);

  // A view that no coordinator hands out, of ranks on one node in one team: for plans, benches and tests.
  // `tensor` divides `world_size`.
  static Mesh OfOneNode(int rank, int world_size, int tensor = 1);

  uint64_t generation() const { return generation_; }
  int rank() const { return rank_; }
  int world_size() const { return static_cast<int>(ranks_.size()); }
  int nodes() const { return ranks_.back().node + 1; }
  // As the coordinator decided; may be larger than a group.
  int team() const { return team_; }
  const coordinator::Coordinates& coordinates() const { return ranks_[rank_]; }

  // Ranks of the view: which one keeps the copies of this rank's snapshots, and for which one it keeps them itself.
  // Both are this rank where it is alone.
  int replica_holder() const { return ShiftedInData(+1); }
  int replica_owner() const { return ShiftedInData(-1); }

  const Group& data() const { return data_; }
  const Group& tensor() const { return tensor_; }

 private:
  Mesh(uint64_t generation, int rank, int team, std::vector<coordinator::Coordinates> ranks);
  int ShiftedInData(int direction) const;
  // The ranks for which `belongs` holds, in rank order.
  template <typename Belongs>
  Group GroupOf(const char* name, Belongs belongs) const;

  uint64_t generation_;
  int rank_, team_;
  std::vector<coordinator::Coordinates> ranks_;
  Group data_, tensor_;
};

}  // namespace zerofleet::parallel

#endif  // ZEROFLEET_WORKER_PARALLEL_MESH_H_
