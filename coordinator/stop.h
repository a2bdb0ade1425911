// An orderly stop: after the step in progress, with a checkpoint.
#ifndef ZEROFLEET_COORDINATOR_STOP_H_
#define ZEROFLEET_COORDINATOR_STOP_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Idempotent: the first reason counts. A fleet that does not train yet has nothing to save and ends at once, as
// Cancelled; so does one that is recovering.
void OnStop(Fleet& fleet, const std::string& reason);

// Tells all members about the requested stop.
void TellStop(Fleet& fleet);

// A worker received a signal.
void OnStopRequested(Fleet& fleet, const Member& member, const v1::StopRequested& requested);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_STOP_H_
