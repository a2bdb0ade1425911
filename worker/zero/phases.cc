// See phases.h.
#include "worker/zero/phases.h"

#include <utility>

namespace zerofleet::zero {

void PhaseMarks::Mark(StepPhase phase) {
  current_ = phase;
  marks_.push_back({phase, stream_.RecordTime()});
}

std::vector<PhaseMark> PhaseMarks::Take() { return std::exchange(marks_, {}); }

PhaseSeconds SumPhases(const std::vector<PhaseMark>& marks, const device::Event& end) {
  PhaseSeconds seconds;
  for (size_t i = 0; i < marks.size(); ++i) {
    const device::Event& next = i + 1 < marks.size() ? *marks[i + 1].event : end;
    seconds[marks[i].phase] += next.SecondsSince(*marks[i].event);
  }
  return seconds;
}

std::vector<PhaseSpan> SpansOf(const std::vector<PhaseMark>& marks, const device::Event& end,
                               const device::Event& origin) {
  std::vector<PhaseSpan> spans;
  for (size_t i = 0; i < marks.size(); ++i) {
    const device::Event& next = i + 1 < marks.size() ? *marks[i + 1].event : end;
    spans.push_back({marks[i].phase, marks[i].event->SecondsSince(origin), next.SecondsSince(origin)});
  }
  return spans;
}

}  // namespace zerofleet::zero
