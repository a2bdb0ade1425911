// Assignments to coordinates, coordinates to groups; see mesh.h.
#include "worker/parallel/mesh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "coordinator/node_runs.h"

namespace zerofleet::parallel {
namespace {

absl::Status Wrong(const std::string& field, const std::string& what) {
  return absl::InternalError(absl::StrCat("the coordinator's assignment is invalid: ", field, " ", what));
}

absl::Status CheckRange(const std::string& field, int value, int smallest, int largest) {
  if (value >= smallest && value <= largest) return absl::OkStatus();
  return Wrong(field, absl::StrCat("must be ", smallest, " to ", largest, ", got ", value));
}

std::string TextOf(const coordinator::Coordinates& at) {
  return absl::StrCat("node ", at.node, ", team ", at.team, ", data ", at.data, ", tensor ", at.tensor);
}

// Ranks in order, each with the coordinates that its place has under the tensor degree and the team told.
absl::Status CheckMembers(const v1::Assignment& assignment) {
  ZF_RETURN_IF_ERROR(
      CheckRange("the number of members", assignment.members_size(), assignment.world_size(), assignment.world_size()));
  std::vector<int> nodes;
  int tensor = 0;
  for (int rank = 0; rank < assignment.members_size(); ++rank) {
    const v1::Member& member = assignment.members(rank);
    const std::string name = absl::StrCat("members[", rank, "]");
    ZF_RETURN_IF_ERROR(CheckRange(name + ".rank", member.rank(), rank, rank));
    const int before = nodes.empty() ? -1 : nodes.back();
    ZF_RETURN_IF_ERROR(CheckRange(name + ".node", member.node(), std::max(before, 0), before + 1));
    ZF_RETURN_IF_ERROR(CheckRange(name + ".tensor", member.tensor(), 0, assignment.world_size() - 1));
    nodes.push_back(member.node());
    tensor = std::max(tensor, member.tensor() + 1);
  }
  if (assignment.world_size() % tensor != 0) {
    return Wrong("members", absl::StrCat("form tensor groups of ", tensor, ", which does not divide the world size of ",
                                         assignment.world_size()));
  }
  const std::vector<coordinator::Coordinates> expected = coordinator::CoordinatesOf(nodes, tensor, assignment.team());
  for (int rank = 0; rank < assignment.members_size(); ++rank) {
    const v1::Member& member = assignment.members(rank);
    const coordinator::Coordinates at{member.node(), member.team(), member.data(), member.tensor()};
    if (at == expected[rank]) continue;
    return Wrong(absl::StrCat("members[", rank, "]"),
                 absl::StrCat("is at ", TextOf(at), ", expected ", TextOf(expected[rank])));
  }
  return absl::OkStatus();
}

// The coordinates for an assignment that counts its nodes and names no members.
absl::StatusOr<std::vector<coordinator::Coordinates>> RanksOnNodes(const v1::Assignment& assignment) {
  const absl::StatusOr<std::vector<int>> nodes = coordinator::NodesOf(assignment);
  if (!nodes.ok()) return Wrong("nodes", absl::StrCat("are wrong: ", nodes.status().message()));
  ZF_RETURN_IF_ERROR(CheckRange("tensor", assignment.tensor(), 1, assignment.world_size()));
  if (assignment.world_size() % assignment.tensor() == 0) {
    return coordinator::CoordinatesOf(*nodes, assignment.tensor(), assignment.team());
  }
  return Wrong("tensor", absl::StrCat("is ", assignment.tensor(), ", which does not divide the world size of ",
                                      assignment.world_size()));
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Create(const v1::Assignment& assignment, uint64_t generation) {
  ZF_RETURN_IF_ERROR(CheckRange("world_size", assignment.world_size(), 1, coordinator::kMostRanks));
  ZF_RETURN_IF_ERROR(CheckRange("rank", assignment.rank(), 0, assignment.world_size() - 1));
  ZF_RETURN_IF_ERROR(CheckRange("team", assignment.team(), 1, coordinator::kMostRanks));
  std::vector<coordinator::Coordinates> ranks;
  if (assignment.members().empty()) {
    ZF_ASSIGN_OR_RETURN(ranks, RanksOnNodes(assignment));
    return Mesh(generation, assignment.rank(), assignment.team(), std::move(ranks));
  }
  ZF_RETURN_IF_ERROR(CheckMembers(assignment));
  for (const v1::Member& member : assignment.members()) {
    ranks.push_back({member.node(), member.team(), member.data(), member.tensor()});
  }
  return Mesh(generation, assignment.rank(), assignment.team(), std::move(ranks));
}

Mesh Mesh::OfOneNode(int rank, int world_size, int tensor) {
  ZF_CHECK(world_size % tensor == 0);
  return Mesh(/*generation=*/1, rank, /*team=*/world_size,
              coordinator::CoordinatesOf(std::vector<int>(world_size, 0), tensor, /*team=*/world_size));
}

Mesh::Mesh(uint64_t generation, int rank, int team, std::vector<coordinator::Coordinates> ranks)
    : generation_(generation), rank_(rank), team_(team), ranks_(std::move(ranks)) {
  ZF_CHECK(rank_ >= 0);
  ZF_CHECK(rank_ < world_size());
  const coordinator::Coordinates mine = ranks_[rank_];
  data_ = GroupOf(kDataGroup, [mine](const coordinator::Coordinates& other) { return other.tensor == mine.tensor; });
  tensor_ = GroupOf(kTensorGroup, [mine](const coordinator::Coordinates& other) { return other.data == mine.data; });
  data_.team = std::min(team_, data_.size());
  tensor_.team = tensor_.size();
}

int Mesh::ShiftedInData(int direction) const {
  const int shift = direction * coordinator::ReplicaShift(data_.nodes);
  return data_.ranks[static_cast<size_t>((data_.rank + shift + data_.size()) % data_.size())];
}

template <typename Belongs>
Group Mesh::GroupOf(const char* name, Belongs belongs) const {
  Group group;
  group.name = name;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (!belongs(ranks_[rank])) continue;
    if (rank == rank_) group.rank = group.size();
    group.ranks.push_back(rank);
    group.nodes.push_back(ranks_[rank].node);
  }
  return group;
}

}  // namespace zerofleet::parallel
