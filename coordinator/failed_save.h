// A save that fails ends nothing: once every rank has told of its shard, what there is of the checkpoint is removed,
// the ranks hear that it is not committed, and the next save tries again. What was committed before stays.
//
// The last save of a run is different, since what it would have stored is stored nowhere else: its ranks try it again,
// and the run ends with the last of kMostLastSaveTries.
#ifndef ZEROFLEET_COORDINATOR_FAILED_SAVE_H_
#define ZEROFLEET_COORDINATOR_FAILED_SAVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

inline constexpr int kMostLastSaveTries = 5;

v1::CoordinatorMessage OutcomeOf(int64_t step, int retry, bool committed, const std::string& text);

// What went wrong with storage is the data's fault to the user, whatever code the system gave.
absl::Status StorageStatus(absl::StatusCode code, const std::string& text);

// A rank could not write its shard. The first that says so is named.
void NoteFailedShard(PendingCommit& commit, const Member& member, const v1::ShardWritten& shard);

// The pending save of `step` has failed and no rank writes into it any more: DiscardSave. Its view may be over.
void DiscardFailedSave(Fleet& fleet, int64_t step, double now);

// Nothing is left of a failed save: every rank hears of it, or the run ends if that was the last try of the last save.
void OnSaveDiscarded(Fleet& fleet, const SaveDiscarded& discarded);

// The view is over: shards are not waited for any more. A manifest that is being written is.
void DropUnfinishedSaves(Fleet& fleet);

// True if the save that `shard` belongs to is known to have failed; its rank is told again. A rank saves again only
// once it has heard how its last save ended. What it has not reported of an earlier save that is pending it therefore
// never will: that save failed, and the coordinator that told so was lost before it had told all.
bool IsOfAFailedSave(Fleet& fleet, const Member& member, const v1::ShardWritten& shard);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_FAILED_SAVE_H_
