// How a run ends: failed with one status for everybody, or complete with every rank's report.
#ifndef ZEROFLEET_COORDINATOR_ENDING_H_
#define ZEROFLEET_COORDINATOR_ENDING_H_

#include "absl/status/status.h"
#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Ends the run: a Failure event, Refused with `status` to every member still there, EndRun. `rank` is the one at
// fault, -1 if it is not one rank's. Does nothing to a run that has ended.
void FailFleet(Fleet& fleet, const absl::Status& status, int rank);

// Tells one session that it has no part in this run, and ends it.
void RefuseSession(Fleet& fleet, MemberId member, const absl::Status& status);

// A rank has done all steps, or has stopped with its checkpoint.
void OnFinished(Fleet& fleet, Member& member, const v1::Finished& finished, double now);

// Ends the run if a checkpoint waits for the shard of a rank that has finished, which would never come.
void FailIfAShardCannotCome(Fleet& fleet);

// Ends the run as complete if every rank has finished and no commit is under way.
void CompleteIfAllFinished(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_ENDING_H_
