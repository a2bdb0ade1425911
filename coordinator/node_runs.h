// The nodes of a view in an assignment that does not name its members: how many in a row have how many ranks.
#ifndef ZEROFLEET_COORDINATOR_NODE_RUNS_H_
#define ZEROFLEET_COORDINATOR_NODE_RUNS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/fleet.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::coordinator {

// Fills `nodes`; takes a few bytes for a fleet of equal nodes, whatever its size.
void SetNodeRuns(const View& view, v1::Assignment* assignment);

// The node of each rank, from the assignment's members or its runs. InvalidArgument if these do not describe exactly
// world_size ranks, or more than kMostRanks.
absl::StatusOr<std::vector<int>> NodesOf(const v1::Assignment& assignment);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_NODE_RUNS_H_
