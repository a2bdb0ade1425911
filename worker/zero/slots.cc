// Runs of equal units share two slots; see slots.h.
#include "worker/zero/slots.h"

namespace zerofleet::zero {

SlotPlan PlanSlots(const std::vector<model::UnitKind>& kinds) {
  const int units = static_cast<int>(kinds.size());
  SlotPlan plan;
  for (int u = 0; u < units;) {
    int end = u + 1;
    while (end < units && kinds[end] == kinds[u]) ++end;
    int first_slot = static_cast<int>(plan.unit_of_slot.size());
    int slots = end - u > 1 ? 2 : 1;
    for (int s = 0; s < slots; ++s) plan.unit_of_slot.push_back(u);
    for (int i = u; i < end; ++i) plan.slot_of_unit.push_back(first_slot + (i - u) % slots);
    u = end;
  }
  return plan;
}

}  // namespace zerofleet::zero
