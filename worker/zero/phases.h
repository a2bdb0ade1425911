// Where a step's time goes, by the device's own clock: marks in the stream, each the start of a phase.
//
// A device may run behind the host, so nothing is timed on the host: the time between two marks is known once the
// stream has passed both.
#ifndef ZEROFLEET_WORKER_ZERO_PHASES_H_
#define ZEROFLEET_WORKER_ZERO_PHASES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/device/device.h"

namespace zerofleet::zero {

// As the metrics name them; a wait counts as the phase waited for.
enum class EnginePhase : uint8_t { kData, kForward, kBackward, kGather, kReduce, kOptimizer };

struct PhaseSeconds {
  double data = 0, forward = 0, backward = 0, gather = 0, reduce = 0, optimizer = 0;
};

struct PhaseMark {
  EnginePhase phase;
  std::shared_ptr<device::Event> event;
};

class PhaseMarks {
 public:
  explicit PhaseMarks(device::Stream& stream) : stream_(stream) {}

  // What the stream does from here on belongs to `phase`.
  void Mark(EnginePhase phase);
  // The marks since the last call.
  std::vector<PhaseMark> Take();

  // A wait within another phase: the object's end goes back to that one.
  class Within {
   public:
    Within(PhaseMarks& marks, EnginePhase phase) : marks_(marks), before_(marks.current_) { marks_.Mark(phase); }
    ~Within() { marks_.Mark(before_); }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    PhaseMarks& marks_;
    const EnginePhase before_;
  };

 private:
  device::Stream& stream_;
  EnginePhase current_ = EnginePhase::kData;
  std::vector<PhaseMark> marks_;
};

// The time from each mark to the next, and from the last to `end`; all of them must have been reached.
PhaseSeconds SumPhases(const std::vector<PhaseMark>& marks, const device::Event& end);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_PHASES_H_
