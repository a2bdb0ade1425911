// The wall between the engine and the optimizer: who keeps a rank's optimizer states and updates them.
//
// The engine knows gradients at rest, a step's control and parameters at rest; where the states are, and what computes
// the update, is the updater's alone. The states are in device memory (device_updater.h) or in the host's
// (host_updater.h); updater_factory.cc chooses.
#ifndef ZEROFLEET_WORKER_ZERO_UPDATER_H_
#define ZEROFLEET_WORKER_ZERO_UPDATER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/link_traffic.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/training_state.h"

namespace zerofleet::zero {

using device::LinkTraffic;  // here of gradients and parameters

// What an updater works with, as in EngineParts.
struct UpdaterParts {
  const model::ModelSpec& spec;
  const ZeroLayout& layout;
  device::Device& device;
  device::Stream& stream;
  memory::Arena& device_arena;
  memory::Arena& host_arena;
  memory::ScratchFile* scratch = nullptr;
  // For an optimizer of whole matrices: the data group's, and the tensor group's where the model is in parts.
  collective::Communicator* communicator = nullptr;
  collective::Communicator* tensor = nullptr;
};

// Not thread-safe. What a call enqueues is done when the stream is.
class Updater {
 public:
  virtual ~Updater() = default;

  // What a checkpoint stores and loads, once every unit is finished. An implementation overwrites none of it without
  // passing its gate.
  virtual TrainingState& state() = 0;

  // Before each Update, of its step: for those to whom the factors in the control are not enough.
  virtual void SetLearningRate(double /*learning_rate*/) {}

  // Fresh states from the seed.
  virtual absl::Status Initialize(uint64_t seed) = 0;

  // A step begins whose control is `before`, on a device whose memory the host can read: the update may go ahead of
  // Update, which then finds out whether it was right to. Such a step stays open until Update runs.
  virtual void Speculate(const device::StepControl& before, const device::StepRule& rule) = 0;

  // Early notice of TakeGradient, where there is one: the shard will be there when `reduced` is done, and nothing else
  // writes it until then.
  virtual void ExpectGradient(int unit, device::Tensor gradient, const collective::Communicator::Pending& reduced) = 0;

  // Called for each unit once a step, before Update: `gradient`, this rank's shard of it, is reduced. What the stream
  // does next may overwrite it where the layout says that gradients leave.
  virtual absl::Status TakeGradient(int unit, device::Tensor gradient) = 0;

  // One step for what this rank updates: the states from its part of `gradients` (at rest, reduced), then its part of
  // `parameters` (at rest, in the compute type) from the new master weights. Clipping, loss scale and whether there is
  // an update at all are in `control`, device memory that the stream has written by then. Delayed: these gradients and
  // this control are held back, and the update is that of the ones held back before, if any (ZeRO-Offload §5.2).
  virtual absl::Status Update(const device::StepControl* control, device::Tensor gradients, device::Tensor parameters,
                              bool delayed) = 0;

  // As Update, of what is held back. False if nothing is; then no unit need be finished.
  virtual absl::StatusOr<bool> Flush(device::Tensor parameters) = 0;

  // Whether the update goes on after Update, so that FinishUnit is better called when a unit is needed.
  virtual bool updates_behind() const = 0;

  // What the stream does next finds the unit's parameters updated. Of every unit after each Update, in their order.
  virtual absl::Status FinishUnit(int unit) = 0;

  // This rank's part of `parameters` from one of the state vectors: 0, the master weights, after the state was loaded.
  // Nothing is held back, or what is is dropped.
  virtual absl::Status Publish(device::Tensor parameters, size_t vector) = 0;

  // Since it was made; nothing where states and parameters are in one memory.
  virtual LinkTraffic link() const = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_UPDATER_H_
