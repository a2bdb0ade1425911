// What an operator sees of a fleet: a pure function of its state.
#ifndef ZEROFLEET_COORDINATOR_STATUS_VIEW_H_
#define ZEROFLEET_COORDINATOR_STATUS_VIEW_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

v1::GetStatusResponse StatusOf(const Fleet& fleet, double now, const v1::GetStatusRequest& request = {});

// The share, from 0 to 1, of this coordinator's lifetime that went into training steps that were not lost again.
double GoodputRatio(const Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_STATUS_VIEW_H_
