// Runs of equal units share two slots; see slots.h.
#include "worker/zero/slots.h"

#include <string>

namespace zerofleet::zero {
namespace {

// "block.3" -> "block": units of one kind are equal in shape.
std::string Kind(const coordinator::UnitExtent& unit) { return unit.name.substr(0, unit.name.find('.')); }

}  // namespace

SlotPlan PlanSlots(const coordinator::PartitionMap& partition) {
  SlotPlan plan;
  for (int u = 0; u < partition.unit_count();) {
    int end = u + 1;
    while (end < partition.unit_count() && Kind(partition.unit(end)) == Kind(partition.unit(u))) ++end;
    int first_slot = static_cast<int>(plan.unit_of_slot.size());
    int slots = end - u > 1 ? 2 : 1;
    for (int s = 0; s < slots; ++s) plan.unit_of_slot.push_back(u);
    for (int i = u; i < end; ++i) plan.slot_of_unit.push_back(first_slot + (i - u) % slots);
    u = end;
  }
  return plan;
}

}  // namespace zerofleet::zero
