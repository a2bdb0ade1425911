// Where each rank of a view stands: the order of its members, and every rank's coordinates.
//
// Ranks of one node are consecutive, nodes in the order of their names, so that the same members get the same ranks in
// whatever order they joined. Every `tensor` consecutive ranks form one tensor group; ranks with equal tensor
// coordinates form a data group, and `team` consecutive ranks of that one team, which is summed first (the last team
// may be shorter). Team decides the order of summation and so the bits of a result; nodes decide only its routing.
#ifndef ZEROFLEET_COORDINATOR_PLACEMENT_H_
#define ZEROFLEET_COORDINATOR_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::coordinator {

inline constexpr int kMostRanks = 16'384;    // of a view
inline constexpr int kMostInlineRanks = 64;  // of a view whose assignments name all of its members
inline constexpr int kMostPeersWanted = 64;  // ranks that one message asks for
inline constexpr int kMostAutoTeam = 8;      // ranks; the most that share a node's fastest links

// The groups' names, in collectives, schedules, reports and metrics.
inline constexpr char kDataGroup[] = "data";      // ranks that train the same parameters on different samples
inline constexpr char kTensorGroup[] = "tensor";  // ranks that share the layers of one model

struct Coordinates {
  int node = 0;    // from 0, in rank order
  int team = 0;    // of the data group, from 0
  int data = 0;    // the rank's number in its data group
  int tensor = 0;  // the rank's number in its tensor group
  bool operator==(const Coordinates&) const = default;
};

// How many of a rank's newest collectives are kept of a lost view of so many ranks, and so are worth telling: bounded
// for all of them together.
int MostFlightEntries(int ranks);

// The number of the group that a rank at `at` is in, among the view's groups of this name.
int GroupNumber(const std::string& group, const Coordinates& at);

// A tensor group that is not on one node: the numbers of its first and last rank. None where each is on one.
std::optional<std::pair<int, int>> GroupAcrossNodes(const std::vector<Coordinates>& ranks);

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

// By rank. `tensor` and `team` are at least 1.
std::vector<Coordinates> CoordinatesOf(const std::vector<int>& nodes, int tensor, int team);

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
