// What the loss of members means: a new generation in which the others go on with whoever takes the lost places, or the
// end of the run when its restart budget is spent.
//
// Survivors keep their processes. They get Regroup, leave the view, and send Ready again; lost places are taken by
// spares, or by workers that join. With every place taken and every member ready, the next view forms (view.h), loads
// the newest committed checkpoint (load_phase.h) and trains on.
#ifndef ZEROFLEET_COORDINATOR_RECOVERY_H_
#define ZEROFLEET_COORDINATOR_RECOVERY_H_

#include <string>
#include <vector>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Losses of one rank at one step, without a step in between, after which that step is taken to be what kills it.
inline constexpr int kPoisonLosses = 3;

// These members are gone: each is told so, in case it is not. `cause` is said of the first; `counter` is a row of
// FleetCounters::rank_failures. Ends the run if restart.max_per_rank is spent for one of them, or a step is poison.
void LoseMembers(Fleet& fleet, const std::vector<MemberId>& lost, const std::string& cause, const char* counter,
                 double now);

// The view cannot go on, as `status` says, and nobody is lost for it: all members regroup. It counts against each of
// `ranks`.
void BreakView(Fleet& fleet, const absl::Status& status, const std::vector<int>& ranks, double now);

// Nobody is lost, but the view cannot go on: all members regroup.
void RegroupAll(Fleet& fleet, const std::string& why, double now);

inline bool IsReadySpare(const Member& spare) { return !spare.ready.config_digest().empty(); }

// Gives free places to spares that are ready, in the order of their joining.
void FillPlacesFromSpares(Fleet& fleet, double now);

// The most of `workers` that can make a view: tensor groups are whole, and every rank has the same share of the batch.
// 0 if none can.
int LargestView(const v1::Config& config, int workers);

// No replacement has come in time: goes on with those who are ready, if restart.min_workers allows it. True if so; the
// others are refused, or are spares from now on.
bool GoOnSmaller(Fleet& fleet, double now);

// A fleet that went on smaller takes in those who have joined since: right after a commit, so that few steps are lost.
void GrowAgain(Fleet& fleet, double now);

// The record of a rank that left the lost view. With the last one the flight is kept.
void AddFlight(Fleet& fleet, v1::FlightRecord record);

// Every rank has loaded again: publishes the Recovery event.
void EndRecovery(Fleet& fleet, int64_t reached_step, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_RECOVERY_H_
