// Where each rank of a view stands: the order of its members, their nodes and teams.
//
// Ranks of one node are consecutive, nodes in the order of their names, so that the same members get the same ranks in
// whatever order they joined; axes.h numbers them along the view's axes. `team` consecutive ranks of a data group form
// one team, which is summed first (the last team may be shorter). Team decides the order of summation and so the bits
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

inline constexpr int kMostRanks = 16'384;    // of a view
inline constexpr int kMostInlineRanks = 64;  // of a view whose assignments name all of its members
inline constexpr int kMostPeersWanted = 64;  // ranks that one message asks for
inline constexpr int kMostAutoTeam = 8;      // ranks; the most that share a node's fastest links

// How many of a rank's newest collectives are kept of a lost view of so many ranks, and so are worth telling: bounded
// for all of them together.
int MostFlightEntries(int ranks);

// The first group of an axis that is not on one node: its first and last rank. None where each is on one. `nodes` by
// rank.
std::optional<std::pair<int, int>> GroupAcrossNodes(const Axes& axes, std::string_view axis,
                                                    const std::vector<int>& nodes);

// What is known of a member when it is placed.
struct MemberPlace {
  std::string node;  // of the machine
  std::string host;  // of the machine, or of a part of it, such as a pod
  int64_t pid = 0;
};

// By rank: the index of its member. By node, then host, then pid, then as given; node-10 comes after node-9.
std::vector<int> RankOrder(const std::vector<MemberPlace>& members);

// The number that each rank's node has, `names` being by rank and each node's ranks consecutive.
std::vector<int> NodesOf(const std::vector<std::string>& names);

// The team of a run that is formed for the first time on `nodes` (by rank): the data ranks of a lone node, at most
// kMostAutoTeam; on several nodes the largest number up to that which divides every node's, so that no team spans two
// nodes.
int AutoTeam(const std::vector<int>& nodes, int tensor);

// Which rank keeps the copies of a rank's snapshots: the one so many after it, counted round. On another node where the
// largest node has at most half of the ranks, so that the loss of a node loses no snapshot; 0 for a lone rank. `nodes`
// by rank.
int ReplicaShift(const std::vector<int>& nodes);

// What parallel.team asks for: 0 for auto, and where the key is absent. InvalidArgument unless it is auto or a number
// from 1 to kMostRanks.
absl::StatusOr<int> ConfiguredTeam(const v1::ParallelConfig& parallel);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_PLACEMENT_H_
