// Where the optimizer's states and the resting parameters are kept, and when the states are updated (ZeRO-Offload).
#ifndef ZEROFLEET_WORKER_ZERO_STATE_PLACEMENT_H_
#define ZEROFLEET_WORKER_ZERO_STATE_PLACEMENT_H_

#include <cstdint>

#include "worker/zero/stage.h"

namespace zerofleet::zero {

struct StatePlacement {
  // Where states that leave the device rest; those in a file pass through host memory when they are updated.
  enum class Residence : uint8_t { kDevice, kHost, kFile };
  // When a step's update is applied: in that step; one step later (§5.2); or before the step is decided, and undone if
  // the decision differs from the guess.
  enum class Timing : uint8_t { kInStep, kDelayed, kSpeculative };

  Residence residence = Residence::kDevice;
  double fraction = 1;  // share of the states, 0 to 1, that leave the device
  Timing timing = Timing::kInStep;
  bool looks_ahead = false;         // late updates leave the parameters ahead of the weights (device::UpdateFactors)
  bool parameters_on_host = false;  // whether parameters rest in host memory

  bool leaves_device() const { return residence != Residence::kDevice; }

  // Whether these settings go together in a stage, with gradients in buckets or not; trainer/rules.h tells users why
  // not. Updates at another time need states on the host, late ones all of them; parameters may rest on the host only
  // where all states do, in stage 3; and states that every rank has whole stay on the device.
  bool Fits(const StageRow& stage, bool in_buckets) const;
};

inline constexpr StatePlacement kStatesOnHost = {.residence = StatePlacement::Residence::kHost};
inline constexpr StatePlacement kStatesInFile = {.residence = StatePlacement::Residence::kFile};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STATE_PLACEMENT_H_
