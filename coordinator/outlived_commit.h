// A commit that is under way when a view is lost: the next view waits for it, but not forever.
//
// It is worth waiting for, since without it the steps since the previous commit must be repeated. So a fleet that lacks
// only the commit waits as long as it would for a worker, restart.form_timeout_seconds from the loss on, and then goes
// on from the previous commit. The commit goes on as well: if it succeeds after all, the next recovery goes back to it,
// and its step need not be saved again.
//
// A run that goes back from a diverged step is the exception: the commit holds a state that led to the divergence. Such
// a run goes on only once it knows how the commit ended; if it does not learn that, it ends.
#ifndef ZEROFLEET_COORDINATOR_OUTLIVED_COMMIT_H_
#define ZEROFLEET_COORDINATOR_OUTLIVED_COMMIT_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Whether the next view has to wait for a commit of an earlier one.
bool AwaitsCommit(const Fleet& fleet);

// The time is up: the next view stops waiting for commits, with a notice. False if there was none to wait for, or if
// the run is going back from a divergence.
bool OutliveCommits(Fleet& fleet);

// Takes in the answer to an outlived commit; false if it answers another. While a view loads the answer is only kept,
// since the checkpoint being loaded must not change.
bool OnLateAnswer(Fleet& fleet, const ManifestWritten& written);

// Whether one of the kept answers says that its commit succeeded.
bool HasLateCommit(const Fleet& fleet);

// Applies the kept answers, unless a view is loading.
void SettleLateAnswers(Fleet& fleet);

// "; waiting for the commit of step 40", or nothing.
std::string AwaitedCommitText(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_OUTLIVED_COMMIT_H_
