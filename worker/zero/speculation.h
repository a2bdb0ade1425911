// An update before its step is decided (SuperOffload, Lian et al. 2025, speculation then validation): it guesses that
// the gradient is finite and not clipped, and can be undone.
//
// Undoing must give the bits of a step that did not guess, and arithmetic does not run backwards. So an update first
// copies what it will overwrite, tile by tile. The copies take as many bytes of host memory as the host's states.
#ifndef ZEROFLEET_WORKER_ZERO_SPECULATION_H_
#define ZEROFLEET_WORKER_ZERO_SPECULATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/device/step_control.h"
#include "worker/memory/arena.h"
#include "worker/zero/layout.h"
#include "worker/zero/training_state.h"

namespace zerofleet::zero {

class Speculation {
 public:
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);

  // `host_arena` is made from a plan with those rows; copies run on a stream of `host`.
  Speculation(const ZeroLayout& layout, device::Device& host, memory::Arena& host_arena);

  // Called when a step begins whose control is `before`: guesses the control once the step is decided.
  void Begin(const device::StepControl& before, const device::StepRule& rule);
  bool guessing() const { return guessing_; }
  const device::StepControl& guess() const { return guess_; }

  // Copies states that are about to be overwritten: elements [offset, offset + count) of each vector. Called at most
  // once a step for each element.
  absl::Status Keep(device::Stream& stream, TrainingState& state, int64_t offset, int64_t count);
  // Called when the step is decided. Returns whether the guess was right; if not, puts back what was kept.
  absl::StatusOr<bool> End(device::Stream& stream, const device::StepControl& decided, TrainingState& state);

  int64_t guesses() const { return guesses_; }
  int64_t undone() const { return undone_; }

 private:
  struct Range {
    int64_t offset, count;
  };

  const ZeroLayout& layout_;
  device::Device& host_;
  optim::StateTensors copies_;  // by vector, in the order of the states on the host
  bool guessing_ = false;
  device::StepControl guess_;
  std::vector<Range> kept_;
  int64_t guesses_ = 0, undone_ = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SPECULATION_H_
