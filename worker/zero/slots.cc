// Runs of equal units share two slots; see slots.h.
#include "worker/zero/slots.h"

#include <algorithm>
#include <numeric>

#include "worker/model/script.h"

namespace zerofleet::zero {
namespace {

// One use of a unit: the numbers of its first and last event, both included.
struct Interval {
  int begin, end;
};

// Each unit's uses, by unit. A use is stretched over the neighbouring use that overlaps it in time: a gather is posted
// when the use before it begins, and a gradient leaves while the next one comes into being.
std::vector<std::vector<Interval>> IntervalsOf(const std::vector<model::UnitEvent>& events, SlotUse use, int units) {
  using What = model::UnitEvent::What;
  const What begins = use == SlotUse::kParameters ? What::kAcquire : What::kGradient;
  const What ends = use == SlotUse::kParameters ? What::kRelease : What::kDeliver;
  std::vector<std::vector<Interval>> intervals(units);
  std::vector<int> open(units, -1);
  const int count = static_cast<int>(events.size());
  for (int i = 0; i < count; ++i) {
    const int unit = events[i].unit;
    if (events[i].what == begins) open[unit] = i;
    if (events[i].what == ends) intervals[unit].push_back({open[unit], i});
  }
  for (std::vector<Interval>& all : intervals) {
    for (Interval& one : all) {
      if (use == SlotUse::kParameters) {
        int at = one.begin - 1;
        while (at > 0 && events[at].what != begins) --at;
        one.begin = std::max(at, 0);
      } else {
        int at = one.end + 1;
        while (at < count && events[at].what != ends) ++at;
        one.end = std::min(at, count);
      }
    }
  }
  return intervals;
}

bool Overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  for (const Interval& one : a) {
    for (const Interval& other : b) {
      if (one.begin <= other.end && other.begin <= one.end) return true;
    }
  }
  return false;
}

}  // namespace

// Largest first, each into the smallest slot that is free whenever it is used: a later unit never widens a slot.
SlotPlan PlanSlots(const model::PassScript& script, SlotUse use, const std::vector<int64_t>& elements) {
  const int units = static_cast<int>(elements.size());
  const std::vector<std::vector<Interval>> training = IntervalsOf(script.training, use, units),
                                           evaluation = IntervalsOf(script.evaluation, use, units);
  std::vector<int> order(units);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return elements[a] > elements[b]; });
  SlotPlan plan;
  plan.slot_of_unit.assign(units, -1);
  std::vector<std::vector<int>> members;
  for (const int unit : order) {
    int slot = static_cast<int>(members.size()) - 1;
    const auto fits = [&](int with) {
      return std::none_of(members[with].begin(), members[with].end(), [&](int other) {
        return Overlap(training[unit], training[other]) || Overlap(evaluation[unit], evaluation[other]);
      });
    };
    while (slot >= 0 && !fits(slot)) --slot;
    if (slot < 0) {
      slot = static_cast<int>(members.size());
      members.emplace_back();
      plan.unit_of_slot.push_back(unit);
    }
    members[slot].push_back(unit);
    plan.slot_of_unit[unit] = slot;
  }
  return plan;
}

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
