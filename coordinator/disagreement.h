// Ranks that compute or keep other bits than the rest: who is given up, and what happens where nothing says who is
// wrong.
#ifndef ZEROFLEET_COORDINATOR_DISAGREEMENT_H_
#define ZEROFLEET_COORDINATOR_DISAGREEMENT_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// A rank reports that the ranks of its view disagree. Those that a majority contradicts are lost, as if they had been
// killed. Where there is no majority all go back to the last commit, and it counts against each rank that was named.
// False, and nothing is done, if it names nobody who is there.
bool OnDisagreement(Fleet& fleet, const v1::Failure& failure, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_DISAGREEMENT_H_
