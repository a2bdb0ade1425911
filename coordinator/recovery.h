// What the loss of members leads to: a new generation, in which the others go on with replacements, or the end of the
// run if its restart budget is spent.
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

// After this many losses of one rank at one step, the step is taken to be what kills the rank.
inline constexpr int kPoisonLosses = 3;

// Whether a rank with this failure, not explained by a peer's loss, is lost like any other; otherwise the run ends.
// `of_its_node` says that the failure comes from the rank's own node.
bool MayRecover(const Fleet& fleet, const absl::Status& failure, bool of_its_node);

// Gives up these members; each is told so, in case it is alive. `cause` is why the first was lost; `counter` is a key
// of FleetCounters::rank_failures. Ends the run if restart.max_per_rank is spent for one of them, or a step is poison.
void LoseMembers(Fleet& fleet, const std::vector<MemberId>& lost, const std::string& cause, const char* counter,
                 double now);

// The view cannot go on, for the reason in `status`, and no member is lost for it: all members regroup. It counts
// against each of `ranks`.
void BreakView(Fleet& fleet, const absl::Status& status, const std::vector<int>& ranks, double now);

// The view cannot go on, but no member is lost and nothing counts against any rank: all members regroup.
void RegroupAll(Fleet& fleet, const std::string& why, double now);

inline bool IsReadySpare(const Member& spare) { return !spare.ready.config_digest().empty(); }

// Gives free places to ready spares, in the order in which they joined.
void FillPlacesFromSpares(Fleet& fleet, double now);

// The largest view that `workers` workers can make: tensor groups are whole, and the data group can share every batch.
// 0 if there is none.
int LargestView(const v1::Config& config, int workers);

// No replacement has come in time: goes on with the ready members, if restart.min_workers allows it, and returns
// whether it does. Ready members beyond the new size become spares; the others are refused.
bool GoOnSmaller(Fleet& fleet, double now);

// A fleet that went on smaller takes in the workers that have joined since. Called right after a commit, so that few
// steps are lost.
void GrowAgain(Fleet& fleet, double now);

// Adds the record of a rank that was in the lost view. With the last rank's, the flight is stored.
void AddFlight(Fleet& fleet, v1::FlightRecord record);

// Every rank has loaded again: publishes the Recovery event.
void EndRecovery(Fleet& fleet, int64_t reached_step, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_RECOVERY_H_
