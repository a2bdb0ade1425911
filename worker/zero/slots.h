// Whole-unit buffers that units take in turn: for gathered parameters in stage 3, and for gradients on their way to
// being reduced.
//
// Blocks are equal in shape and used one after another, so two buffers serve them all: one in use, one being filled or
// drained. The embedding and the head have their own, since they are in use at the same time. The size of this memory
// does not grow with the number of layers (ZeRO §6.2, constant-size buffers).
//
// The units of a foreign model may differ in shape and be used in any order, which its script gives: units that are in
// use at different times share a slot, as large as the largest of them.
#ifndef ZEROFLEET_WORKER_ZERO_SLOTS_H_
#define ZEROFLEET_WORKER_ZERO_SLOTS_H_

#include <cstdint>
#include <vector>

#include "worker/model/spec.h"

namespace zerofleet::zero {

struct SlotPlan {
  std::vector<int> slot_of_unit;
  std::vector<int> unit_of_slot;  // the slot's largest unit, or one of them
};

// Neighbouring units of one kind, which are equal in shape, share two slots, alternately.
SlotPlan PlanSlots(const std::vector<model::UnitKind>& kinds);

enum class SlotUse : uint8_t { kParameters, kGradients };

// A plan by the script: no two units share a slot if one is in use, or about to be (parameters) or still being drained
// (gradients), while the other is in use. `elements` is indexed by unit.
SlotPlan PlanSlots(const model::PassScript& script, SlotUse use, const std::vector<int64_t>& elements);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SLOTS_H_
