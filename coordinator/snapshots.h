// To which step a recovery can go back without storage.
//
// Nothing is remembered for it: with its Ready each member says which parts of which snapshots are in its memory, and
// any member may serve any part. So a coordinator that was started again knows as much as the one before.
#ifndef ZEROFLEET_COORDINATOR_SNAPSHOTS_H_
#define ZEROFLEET_COORDINATOR_SNAPSHOTS_H_

#include <optional>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// The newest snapshot of which every rank's part is held by a member: by that rank itself, or by one that others can
// reach. Of views of this world size only, and of generations before this one.
std::optional<SnapshotChoice> NewestSnapshot(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_SNAPSHOTS_H_
