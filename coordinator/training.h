// The messages of a fleet that trains: heartbeats, and rank 0's events.
#ifndef ZEROFLEET_COORDINATOR_TRAINING_H_
#define ZEROFLEET_COORDINATOR_TRAINING_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

void OnHeartbeat(Member& member, const v1::Heartbeat& heartbeat, double now);

// Publishes rank 0's step, evaluation and histogram events as they arrive, each step once, and notices of any rank.
// Other events are dropped.
void OnWorkerEvent(Fleet& fleet, const Member& member, const v1::Event& event, double now);

// The run has ended in an earlier process: its step is that of the newest commit.
void StartWhereItEnded(Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_TRAINING_H_
