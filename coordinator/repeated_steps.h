// Steps that are repeated after a recovery are compared with their first results: a difference is a fault of hardware
// or software that nothing else would show.
#ifndef ZEROFLEET_COORDINATOR_REPEATED_STEPS_H_
#define ZEROFLEET_COORDINATOR_REPEATED_STEPS_H_

#include <cstdint>

#include "zerofleet/v1/events.pb.h"

namespace zerofleet::coordinator {

struct Fleet;

// Keeps a reported step. If it repeats a lost step, its loss and norm must be the same to the bit, else people are
// told. Steps are not compared if the number of ranks has changed (unless reduce.order is samples), if samples have
// been left out since, with delayed updates, which an unplanned save shifts, or if the ranks' environments differ.
void NoteStep(Fleet& fleet, const v1::StepEvent& step);
// The steps after `step` are lost; returns the seconds that they took.
double LoseStepsAfter(Fleet& fleet, int64_t step);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_REPEATED_STEPS_H_
