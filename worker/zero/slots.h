// Whole-unit buffers that units take in turn: gathered parameters of stage 3, and gradients on their way to being
// reduced.
//
// Blocks are equal in shape and used one after another, so two buffers serve them all: one in use, one being filled or
// drained. The embedding and the head have their own, since they are in use at the same time. The size of this memory
// does not grow with the number of layers (ZeRO §6.2, constant-size buffers).
#ifndef ZEROFLEET_WORKER_ZERO_SLOTS_H_
#define ZEROFLEET_WORKER_ZERO_SLOTS_H_

#include <cstdint>
#include <vector>

#include "worker/model/spec.h"

namespace zerofleet::zero {

struct SlotPlan {
  std::vector<int> slot_of_unit;
  std::vector<int> unit_of_slot;  // one of the units that use the slot; all of them have its size
};

// Neighbouring units of one kind, which are equal in shape, share two slots, alternately.
SlotPlan PlanSlots(const std::vector<model::UnitKind>& kinds);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SLOTS_H_
