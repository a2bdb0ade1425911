// Assignments to axes, axes to groups; see mesh.h.
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

// The axes of the assignment, which must be those that a run has, in their order, with degrees that make the world
// size.
absl::StatusOr<coordinator::Axes> AxesOf(const v1::Assignment& assignment) {
  const coordinator::Axes known = coordinator::AxesOf(/*tensor=*/1, assignment.world_size());
  ZF_RETURN_IF_ERROR(CheckRange("the number of axes", assignment.axes_size(), static_cast<int>(known.list().size()),
                                static_cast<int>(known.list().size())));
  std::vector<coordinator::Axis> axes;
  int64_t ranks = 1;
  for (const v1::Axis& told : assignment.axes()) {
    const std::string& name = known.list()[axes.size()].name;
    if (told.name() != name) return Wrong("axes", absl::StrCat("have ", told.name(), ", expected ", name));
    ZF_RETURN_IF_ERROR(
        CheckRange(absl::StrCat("the degree of axis ", name), told.degree(), 1, assignment.world_size()));
    ranks *= told.degree();
    axes.push_back({name, told.degree()});
  }
  if (ranks == assignment.world_size()) return coordinator::Axes(std::move(axes));
  return Wrong("axes", absl::StrCat("make ", ranks, " ranks, expected ", assignment.world_size()));
}

// The node of each rank: from the members, which are in rank order, or from the assignment's counted nodes.
absl::StatusOr<std::vector<int>> NodesOf(const v1::Assignment& assignment) {
  if (!assignment.members().empty()) {
    ZF_RETURN_IF_ERROR(CheckRange("the number of members", assignment.members_size(), assignment.world_size(),
                                  assignment.world_size()));
    for (int rank = 0, before = -1; rank < assignment.members_size(); ++rank) {
      const v1::Member& member = assignment.members(rank);
      const std::string name = absl::StrCat("members[", rank, "]");
      ZF_RETURN_IF_ERROR(CheckRange(name + ".rank", member.rank(), rank, rank));
      ZF_RETURN_IF_ERROR(CheckRange(name + ".node", member.node(), std::max(before, 0), before + 1));
      before = member.node();
    }
  }
  absl::StatusOr<std::vector<int>> nodes = coordinator::NodesOf(assignment);
  if (!nodes.ok()) return Wrong("nodes", absl::StrCat("are wrong: ", nodes.status().message()));
  return nodes;
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Create(const v1::Assignment& assignment, uint64_t generation) {
  ZF_RETURN_IF_ERROR(CheckRange("world_size", assignment.world_size(), 1, coordinator::kMostRanks));
  ZF_RETURN_IF_ERROR(CheckRange("rank", assignment.rank(), 0, assignment.world_size() - 1));
  ZF_RETURN_IF_ERROR(CheckRange("team", assignment.team(), 1, coordinator::kMostRanks));
  ZF_ASSIGN_OR_RETURN(coordinator::Axes axes, AxesOf(assignment));
  ZF_ASSIGN_OR_RETURN(std::vector<int> nodes, NodesOf(assignment));
  return Mesh(generation, assignment.rank(), assignment.team(), std::move(axes), std::move(nodes));
}

Mesh Mesh::OfOneNode(int rank, int world_size, int tensor) {
  return Mesh(/*generation=*/1, rank, /*team=*/world_size, coordinator::AxesOf(tensor, world_size),
              std::vector<int>(world_size, 0));
}

Mesh::Mesh(uint64_t generation, int rank, int team, coordinator::Axes axes, std::vector<int> nodes)
    : generation_(generation), rank_(rank), team_(team), axes_(std::move(axes)), nodes_(std::move(nodes)) {
  ZF_CHECK(rank_ >= 0);
  ZF_CHECK(rank_ < world_size());
  for (auto axis = axes_.list().rbegin(); axis != axes_.list().rend(); ++axis) {
    Group group;
    group.name = axis->name;
    group.rank = axes_.At(rank_, axis->name);
    group.ranks = axes_.GroupOf(rank_, axis->name);
    group.team = group.name == kDataGroup ? std::min(team_, group.size()) : group.size();
    for (int member : group.ranks) group.nodes.push_back(nodes_[member]);
    groups_.push_back(std::move(group));
  }
}

const Group& Mesh::group(std::string_view name) const {
  const auto found =
      std::find_if(groups_.begin(), groups_.end(), [name](const Group& each) { return each.name == name; });
  ZF_CHECK(found != groups_.end());
  return *found;
}

int Mesh::ShiftedInData(int direction) const {
  const Group& group = data();
  const int shift = direction * coordinator::ReplicaShift(group.nodes);
  return group.ranks[static_cast<size_t>((group.rank + shift + group.size()) % group.size())];
}

}  // namespace zerofleet::parallel
