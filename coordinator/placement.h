// Where the ranks of a view are placed: the order of its members, their nodes and teams.
//
// Ranks of one node are consecutive, nodes in the order of their names, so that the same members get the same ranks in
// whatever order they joined; axes.h numbers them along the view's axes. `team` consecutive ranks of a data group form
// one team, which is summed first (the last team may be shorter). Teams decide the order of summation, and so the bits
// of a result; nodes decide only its routing.
#ifndef ZEROFLEET_COORDINATOR_PLACEMENT_H_
#define ZEROFLEET_COORDINATOR_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/axes.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::coordinator {

inline constexpr int kMostRanks = 16'384;    // in a view
inline constexpr int kMostInlineRanks = 64;  // in a view whose assignments name all members
inline constexpr int kMostPeersWanted = 64;  // ranks in one PeersWanted
inline constexpr int kMostAutoTeam = 8;      // ranks; the most that share a node's fastest links

// How many of each rank's newest collectives are kept when a view of `ranks` ranks is lost, and so are worth sending.
// It bounds the total over all ranks.
int MostFlightEntries(int ranks);

// The first group of an axis that spans several nodes, as its first and last rank; none if every group is on one node.
// `nodes` is by rank.
std::optional<std::pair<int, int>> GroupAcrossNodes(const Axes& axes, std::string_view axis,
                                                    const std::vector<int>& nodes);

// What is known about a member when it is placed.
struct MemberPlace {
  std::string node;  // the machine's name
  std::string host;  // the name of the machine, or of a part of it, such as a pod
  int64_t pid = 0;
};

// The indices of the members in rank order: sorted by node, then host, then pid, then as given; node-10 comes after
// node-9.
std::vector<int> RankOrder(const std::vector<MemberPlace>& members);

// The number of each rank's node. `names` is by rank, and each node's ranks are consecutive.
std::vector<int> NodesOf(const std::vector<std::string>& names);

// The team of a run that is formed for the first time on `nodes` (by rank): the data ranks of a single node, at most
// kMostAutoTeam; on several nodes, the largest number up to kMostAutoTeam that divides every node's data ranks, so that
// no team spans two nodes.
int AutoTeam(const std::vector<int>& nodes, int tensor);

// The distance, modulo the number of ranks, from a rank to the rank that keeps copies of its snapshots. The latter is
// on another node if the largest node has at most half of the ranks, so that losing a node loses no snapshot. 0 for a
// single rank. `nodes` is by rank.
int ReplicaShift(const std::vector<int>& nodes);

// The team that parallel.team sets; 0 if it is auto or absent. InvalidArgument unless it is auto or a number from 1 to
// kMostRanks.
absl::StatusOr<int> ConfiguredTeam(const v1::ParallelConfig& parallel);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_PLACEMENT_H_
