// What the run starts from: the newest checkpoint that every rank can load; in a recovery, a snapshot in the members'
// memory if there is one that is no older.
#ifndef ZEROFLEET_COORDINATOR_LOAD_PHASE_H_
#define ZEROFLEET_COORDINATOR_LOAD_PHASE_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Requests every rank to load the snapshot, or the current candidate; without either, to initialise from the seed.
void BeginLoad(Fleet& fleet, double now);

// Publishes the Start event; `told` is any member that has reported the model's size.
void PublishStart(Fleet& fleet, const Member& told, bool resumed);

// One rank's answer to Load. Once all ranks have loaded, training starts. If a rank cannot load the snapshot, and no
// other worker has a copy, the candidate is loaded instead, with a notice. If a rank cannot read a checkpoint, the
// coordinator reads it and then decides (OnVerified), while the others wait. Other failures fail the run.
void OnLoadResult(Fleet& fleet, Member& member, const v1::LoadResult& result, double now);

// The coordinator has read the checkpoint itself. If it is whole, the ranks that could not load it are lost. If it is
// damaged, the next older candidate is loaded, with a notice that names the bad file; the run fails if none is left or
// falling back is not allowed. If the coordinator cannot read it either, storage is at fault and the run ends, since
// the checkpoint may be whole.
void OnVerified(Fleet& fleet, const CheckpointVerified& verified, double now);

// Ends the run if the coordinator's reading takes longer than any storage would, unless save_stalls.h judges it by its
// progress.
void CheckVerification(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_LOAD_PHASE_H_
