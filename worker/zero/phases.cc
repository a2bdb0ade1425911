// See phases.h.
#include "worker/zero/phases.h"

#include <utility>

namespace zerofleet::zero {
namespace {

double& SecondsOf(PhaseSeconds& seconds, EnginePhase phase) {
  switch (phase) {
    case EnginePhase::kData: return seconds.data;
    case EnginePhase::kForward: return seconds.forward;
    case EnginePhase::kBackward: return seconds.backward;
    case EnginePhase::kGather: return seconds.gather;
    case EnginePhase::kReduce: return seconds.reduce;
    case EnginePhase::kOptimizer: break;
  }
  return seconds.optimizer;
}

}  // namespace

void PhaseMarks::Mark(EnginePhase phase) {
  current_ = phase;
  marks_.push_back({phase, stream_.Record()});
}

std::vector<PhaseMark> PhaseMarks::Take() { return std::exchange(marks_, {}); }

PhaseSeconds SumPhases(const std::vector<PhaseMark>& marks, const device::Event& end) {
  PhaseSeconds seconds;
  for (size_t i = 0; i < marks.size(); ++i) {
    const device::Event& next = i + 1 < marks.size() ? *marks[i + 1].event : end;
    SecondsOf(seconds, marks[i].phase) += next.SecondsSince(*marks[i].event);
  }
  return seconds;
}

}  // namespace zerofleet::zero
