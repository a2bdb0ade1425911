// What the run starts from: the newest checkpoint that every rank can load; in a recovery, a snapshot in the members'
// memory if there is one that is no older.
#ifndef ZEROFLEET_COORDINATOR_LOAD_PHASE_H_
#define ZEROFLEET_COORDINATOR_LOAD_PHASE_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Asks every rank to load the snapshot, or the current candidate (neither where there is none: initialise from the
// seed).
void BeginLoad(Fleet& fleet, double now);

// Publishes the Start event; `told` is any member that knows the model's size.
void PublishStart(Fleet& fleet, const Member& told, bool resumed);

// One rank's answer. All good: training starts. A snapshot that one cannot load makes way for the candidate, with a
// notice. A checkpoint that one cannot read is read by the coordinator, which then judges; the others wait. Other
// failures fail the run as they are.
void OnLoadResult(Fleet& fleet, Member& member, const v1::LoadResult& result, double now);

// What the coordinator has read itself. Whole: those who could not load it are lost. Damaged: the candidate before,
// where falling back is allowed and one is left, with a notice that names the bad file; else the run fails. If it
// cannot be read here either, storage is at fault, and the run ends: nothing is known against the checkpoint.
void OnVerified(Fleet& fleet, const CheckpointVerified& verified, double now);

// Ends the run if that takes longer than any storage does, where it is not judged by how it gets on (save_stalls.h).
void CheckVerification(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_LOAD_PHASE_H_
