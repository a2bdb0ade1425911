// Steps that a recovery does again, held to what they gave before: a difference is a fault, of hardware or of software,
// that nothing else would show.
#ifndef ZEROFLEET_COORDINATOR_REPEATED_STEPS_H_
#define ZEROFLEET_COORDINATOR_REPEATED_STEPS_H_

#include <cstdint>

#include "zerofleet/v1/events.pb.h"

namespace zerofleet::coordinator {

struct Fleet;

// Keeps a step that was reported. One that was lost before has the loss and the norm it had, to the bit, or people are
// told: with another number of ranks only if reduce.order is samples, not after samples have been left out, not with
// delayed updates, which an unplanned save moves, nor where ranks compute with different things.
void NoteStep(Fleet& fleet, const v1::StepEvent& step);
// Those after `step` are lost; returns the seconds that they took.
double LoseStepsAfter(Fleet& fleet, int64_t step);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_REPEATED_STEPS_H_
