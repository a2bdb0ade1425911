// To which step a recovery can go back without storage.
//
// The coordinator keeps no record of snapshots: each member's Ready says which parts of which snapshots are in its
// memory, and any member may serve any part. So a restarted coordinator knows as much as its predecessor.
#ifndef ZEROFLEET_COORDINATOR_SNAPSHOTS_H_
#define ZEROFLEET_COORDINATOR_SNAPSHOTS_H_

#include <optional>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// The newest snapshot of which every rank's part is held, by that rank itself or by a member that others can reach.
// Only snapshots of views with this world size, from generations before this one, count.
std::optional<SnapshotChoice> NewestSnapshot(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_SNAPSHOTS_H_
