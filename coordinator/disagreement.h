// Ranks have different bits: who is given up, or whether nobody can be.
//
// Every rank comes to a verdict and reports it, and each should be the same. A rank that computes wrong numbers may
// come to a wrong one, so no report is taken alone: what most of the ranks say counts.
#ifndef ZEROFLEET_COORDINATOR_DISAGREEMENT_H_
#define ZEROFLEET_COORDINATOR_DISAGREEMENT_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// A rank reports what its view has compared (Failure.disagreement). True if that names ranks of the view: with the last
// report, or after half a heartbeat timeout, those that a majority of the ranks names are lost. Where they call it
// undecided, or there is no majority, all go back to the last commit, and it counts against each that is named and,
// without a majority, against each that names. Snapshots may hold what is wrong, and are not used.
bool OnDisagreement(Fleet& fleet, const Member& member, const v1::Failure& failure, double now);

// The time for reports may be over.
void CheckDisagreement(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_DISAGREEMENT_H_
