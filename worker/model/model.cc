// What every family shares; see model.h.
#include "worker/model/model.h"

namespace zerofleet {

std::vector<int> UsedUnits(const std::vector<UnitEvent>& events) {
  std::vector<int> units;
  for (const UnitEvent& event : events) {
    if (event.kind == UnitEvent::kAcquire) units.push_back(event.unit);
  }
  return units;
}

}  // namespace zerofleet
