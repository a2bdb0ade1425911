// The messages of a fleet that trains: heartbeats, and rank 0's events.
#ifndef ZEROFLEET_COORDINATOR_TRAINING_H_
#define ZEROFLEET_COORDINATOR_TRAINING_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

void OnHeartbeat(Member& member, const v1::Heartbeat& heartbeat, double now);

// Step and evaluate events of rank 0 are published as they come, each step once; a notice is published of any rank.
// Others are dropped.
void OnWorkerEvent(Fleet& fleet, const Member& member, const v1::Event& event, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_TRAINING_H_
