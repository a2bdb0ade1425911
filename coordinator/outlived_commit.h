// A commit that is under way when a view is lost: the next view waits for it, but not for ever.
//
// It is worth waiting for, since whoever goes on without it does the steps since the commit before again. A fleet that
// is complete but for it therefore waits as long as it would for a worker, restart.form_timeout_seconds from the loss
// on, and then goes on from the commit before. The commit goes on as well: if it succeeds after all, it is what the
// next recovery goes back to, and its step need not be saved again.
//
// A run that goes back from a step that diverged is the exception: what the commit holds led there, and is about to be
// left out. That run knows how the commit ended before it goes on, or ends.
#ifndef ZEROFLEET_COORDINATOR_OUTLIVED_COMMIT_H_
#define ZEROFLEET_COORDINATOR_OUTLIVED_COMMIT_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Whether the next view has to wait for a commit of an earlier one.
bool AwaitsCommit(const Fleet& fleet);

// The time is up: the next view waits for no commit any more, and a line says so. False if there was none to be waited
// for, or if the run is going back from a divergence.
bool OutliveCommits(Fleet& fleet);

// Takes in the answer to a commit that was outlived, and says whether it is one. While a view loads it is kept: which
// checkpoint is loaded must not change.
bool OnLateAnswer(Fleet& fleet, const ManifestWritten& written);

// Whether one of the answers that were kept tells of a commit.
bool HasLateCommit(const Fleet& fleet);

// Takes in the answers that were kept, if no view loads.
void SettleLateAnswers(Fleet& fleet);

// "; waiting for the commit of step 40", or nothing.
std::string AwaitedCommitText(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_OUTLIVED_COMMIT_H_
