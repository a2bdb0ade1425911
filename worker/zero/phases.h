// Where a step's time goes, by the device's own clock: marks in the stream, each the start of a phase.
//
// A device may run behind the host, so nothing is timed on the host: the time between two marks is known once the
// stream has passed both.
#ifndef ZEROFLEET_WORKER_ZERO_PHASES_H_
#define ZEROFLEET_WORKER_ZERO_PHASES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "worker/device/device.h"

namespace zerofleet::zero {

// Where a step's time goes; a wait counts as the phase that is waited for. Phases may overlap (reduce overlaps
// backward), so they need not add up to the step. kCheckpoint lies between two steps and is never marked in a stream.
enum class StepPhase : uint8_t { kData, kForward, kBackward, kGather, kReduce, kOptimizer, kCheckpoint };
inline constexpr const char* kPhaseNames[] = {"data",   "forward",   "backward",  "gather",
                                              "reduce", "optimizer", "checkpoint"};
inline constexpr size_t kMarkedPhases = std::size(kPhaseNames) - 1;

class PhaseSeconds {
 public:
  double& operator[](StepPhase phase) { return seconds_[static_cast<size_t>(phase)]; }
  double operator[](StepPhase phase) const { return seconds_[static_cast<size_t>(phase)]; }

 private:
  std::array<double, kMarkedPhases> seconds_ = {};
};

struct PhaseMark {
  StepPhase phase;
  std::shared_ptr<device::Event> event;
};

class PhaseMarks {
 public:
  explicit PhaseMarks(device::Stream& stream) : stream_(stream) {}

  // Later work on the stream belongs to `phase`.
  void Mark(StepPhase phase);
  // The marks since the last call.
  std::vector<PhaseMark> Take();

  // A wait within another phase, which goes on when this object is destroyed.
  class Within {
   public:
    Within(PhaseMarks& marks, StepPhase phase) : marks_(marks), before_(marks.current_) { marks_.Mark(phase); }
    ~Within() { marks_.Mark(before_); }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    PhaseMarks& marks_;
    const StepPhase before_;
  };

 private:
  device::Stream& stream_;
  StepPhase current_ = StepPhase::kData;
  std::vector<PhaseMark> marks_;
};

// The time that one mark stands for, in seconds since an event.
struct PhaseSpan {
  StepPhase phase;
  double begin, end;
};
// The spans from each mark to the next, and from the last to `end`, in seconds since `origin`; all of these events must
// have been reached.
std::vector<PhaseSpan> SpansOf(const std::vector<PhaseMark>& marks, const device::Event& end,
                               const device::Event& origin);

// The time from each mark to the next, and from the last to `end`, summed by phase; all of these events must have been
// reached.
PhaseSeconds SumPhases(const std::vector<PhaseMark>& marks, const device::Event& end);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_PHASES_H_
