// A failed save does not end the run: once every rank has reported its shard, what there is of the checkpoint is
// removed, the ranks are told that it is not committed, and the next save tries again. Earlier commits stay.
//
// A run's last save is different, since its state is stored nowhere else: the ranks repeat it, and the run fails if the
// last of kMostLastSaveTries tries does.
#ifndef ZEROFLEET_COORDINATOR_FAILED_SAVE_H_
#define ZEROFLEET_COORDINATOR_FAILED_SAVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

inline constexpr int kMostLastSaveTries = 5;

v1::CoordinatorMessage OutcomeOf(int64_t step, int retry, bool committed, const std::string& text);

// A storage error for the user: `code` if its exit code is that of data and checkpoints (3), else DataLoss.
absl::Status StorageStatus(absl::StatusCode code, const std::string& text);

// A rank could not write its shard. Messages name the first such rank.
void NoteFailedShard(PendingCommit& commit, const Member& member, const v1::ShardWritten& shard);

// The pending save of `step` has failed and no rank writes into it any more: emits DiscardSave. The save's view may be
// over.
void DiscardFailedSave(Fleet& fleet, int64_t step, double now);

// A failed save has been removed: every rank is told, and the run fails if that was the last try of the last save.
void OnSaveDiscarded(Fleet& fleet, const SaveDiscarded& discarded);

// The view is over: saves that still wait for shards are dropped. A manifest that is being written is awaited.
void DropUnfinishedSaves(Fleet& fleet);

// True if the save that `shard` belongs to is known to have failed; its rank is then told again. A rank saves again
// only once it knows how its last save ended. So if it has not reported its shard of an earlier pending save, it never
// will: that save failed, and the coordinator that announced this was lost before it had told all ranks.
bool IsOfAFailedSave(Fleet& fleet, const Member& member, const v1::ShardWritten& shard);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_FAILED_SAVE_H_
