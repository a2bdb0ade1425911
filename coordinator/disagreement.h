// Ranks have different bits: which of them are given up, or whether none can be.
//
// Every rank comes to a verdict and reports it, and each should be the same. A rank that computes wrong numbers may
// come to a wrong verdict, so no single report is trusted: the majority counts.
#ifndef ZEROFLEET_COORDINATOR_DISAGREEMENT_H_
#define ZEROFLEET_COORDINATOR_DISAGREEMENT_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// A rank reports a comparison within its view (Failure.disagreement). True if the report names ranks of the view. With
// the last report, or after half a heartbeat timeout, the ranks that a majority names are lost. If the majority calls
// it undecided, or there is no majority, all go back to the last commit, and that counts against each rank that is
// named and, without a majority, also against each that reported. Snapshots are not used, since they may hold the wrong
// numbers.
bool OnDisagreement(Fleet& fleet, const Member& member, const v1::Failure& failure, double now);

// Decides once the time for reports is over.
void CheckDisagreement(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_DISAGREEMENT_H_
