// The wall between the engine and the optimizer: who keeps a rank's optimizer states and updates them.
//
// The engine knows gradients at rest, a step's control and parameters at rest; where the states are, and what computes
// the update, is the updater's alone. Today the states are in device memory (device_updater.h). Another place for them
// is another implementation, named in updater_factory.cc.
#ifndef ZEROFLEET_WORKER_ZERO_UPDATER_H_
#define ZEROFLEET_WORKER_ZERO_UPDATER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/device/ops.h"
#include "worker/memory/arena.h"
#include "worker/model/spec.h"
#include "worker/zero/layout.h"
#include "worker/zero/training_state.h"

namespace zerofleet::zero {

// What an updater works with; borrowed, and longer lived than the updater.
struct UpdaterParts {
  const model::ModelSpec& spec;
  const ZeroLayout& layout;
  device::Device& device;
  device::Stream& stream;
  memory::Arena& device_arena;
};

// Not thread-safe. What a call enqueues is done when the stream is.
class Updater {
 public:
  virtual ~Updater() = default;

  // What a checkpoint stores and loads, with no update under way.
  virtual TrainingState& state() = 0;

  // Fresh states from the seed.
  virtual absl::Status Initialize(uint64_t seed) = 0;

  // One step for what this rank updates: the states from its part of `gradients` (at rest, reduced), then its part of
  // `parameters` (at rest, in the compute type) from the new master weights. Clipping, loss scale and whether there is
  // an update at all are in `control`, device memory that the stream has written by then.
  virtual absl::Status Update(const device::StepControl* control, device::Tensor gradients,
                              device::Tensor parameters) = 0;

  // This rank's part of `parameters` from the master weights, after the state was loaded.
  virtual absl::Status Publish(device::Tensor parameters) = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_UPDATER_H_
