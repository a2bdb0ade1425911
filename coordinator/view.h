// The view: the members, their ranks and their generation.
#ifndef ZEROFLEET_COORDINATOR_VIEW_H_
#define ZEROFLEET_COORDINATOR_VIEW_H_

#include "coordinator/fleet.h"

namespace zerofleet {

// Gives every ready member its rank, in join order, under a new generation (one more than any before, made durable
// before anybody hears of it), and begins loading.
void FormView(Fleet& fleet, double now);

}  // namespace zerofleet

#endif  // ZEROFLEET_COORDINATOR_VIEW_H_
