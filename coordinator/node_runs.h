// The nodes of a view in an assignment that does not name its members: how many in a row have how many ranks.
#ifndef ZEROFLEET_COORDINATOR_NODE_RUNS_H_
#define ZEROFLEET_COORDINATOR_NODE_RUNS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/fleet.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::coordinator {

// A few bytes for a fleet of equal nodes, whatever its size.
void SetNodeRuns(const View& view, v1::Assignment* assignment);

// The node of each rank, as the assignment's members or its runs tell. InvalidArgument if they do not tell it of
// exactly world_size ranks, which must be at most kMostRanks.
absl::StatusOr<std::vector<int>> NodesOf(const v1::Assignment& assignment);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_NODE_RUNS_H_
