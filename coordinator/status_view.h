// What an operator sees of a fleet: a pure function of its state.
#ifndef ZEROFLEET_COORDINATOR_STATUS_VIEW_H_
#define ZEROFLEET_COORDINATOR_STATUS_VIEW_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

v1::GetStatusResponse StatusOf(const Fleet& fleet, double now, const v1::GetStatusRequest& request = {});

// The share of this coordinator's life that went into training steps which were not lost again, from 0 to 1.
double GoodputRatio(const Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_STATUS_VIEW_H_
