// The wall between the engine and the optimizer: who keeps a rank's optimizer states and updates them.
//
// The engine knows gradients at rest, a step's control and parameters at rest; only the updater knows where the states
// are and what computes the update. The states are in device memory (device_updater.h) or in the host's
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

using device::LinkTraffic;  // here counts gradients and parameters

// What an updater works with; members as in EngineParts.
struct UpdaterParts {
  const model::ModelSpec& spec;
  const ZeroLayout& layout;
  device::Device& device;
  device::Stream& stream;
  memory::Arena& device_arena;
  memory::Arena& host_arena;
  memory::ScratchFile* scratch = nullptr;
  // For an optimizer of whole matrices: the data group's communicator, and the tensor group's where the model is in
  // parts.
  collective::Communicator* communicator = nullptr;
  collective::Communicator* tensor = nullptr;
};

// Not thread-safe. Work that a call enqueues is done when the stream has reached it.
class Updater {
 public:
  virtual ~Updater() = default;

  // What a checkpoint stores and loads, once every unit is finished. An implementation passes the state's gate before
  // it overwrites any of it.
  virtual TrainingState& state() = 0;

  // Called before each Update with the step's learning rate, for updaters that need more than the control's factors.
  virtual void SetLearningRate(double /*learning_rate*/) {}

  // Fresh states from the seed.
  virtual absl::Status Initialize(uint64_t seed) = 0;

  // Called when a step begins whose control is `before`, device memory that the stream has written. States may then be
  // updated before Update, which checks whether the guess was right. Such a step stays open until Update runs.
  virtual void Speculate(const device::StepControl* before, const device::StepRule& rule) = 0;

  // Early notice of a TakeGradient, if there is one: the shard will be complete when `reduced` is, and nothing else
  // writes it until then.
  virtual void ExpectGradient(int unit, device::Tensor gradient, const collective::Communicator::Pending& reduced) = 0;

  // Called for each unit once a step, before Update, when `gradient`, this rank's shard of it, is reduced. Later work
  // on the stream may overwrite the shard where the layout says that gradients leave.
  virtual absl::Status TakeGradient(int unit, device::Tensor gradient) = 0;

  // One step for what this rank updates: the states from its part of `gradients` (at rest, reduced), then its part of
  // `parameters` (at rest, in the compute type) from the new master weights. `control`, device memory that the stream
  // has written by then, has clipping, loss scale and whether there is an update at all. With `delayed`, these
  // gradients and this control are held back, and the update applies those held back before, if any (ZeRO-Offload
  // §5.2).
  virtual absl::Status Update(const device::StepControl* control, device::Tensor gradients, device::Tensor parameters,
                              bool delayed) = 0;

  // Called when the host has waited for the stream, before it reads the state: the failure of a collective that Update
  // has posted for itself, if there was one.
  virtual absl::Status AwaitUpdate() { return absl::OkStatus(); }

  // As Update, for what is held back. Returns false if nothing is; no unit need be finished then.
  virtual absl::StatusOr<bool> Flush(device::Tensor parameters) = 0;

  // Whether the update goes on after Update, so that FinishUnit is better called when a unit is needed.
  virtual bool updates_behind() const = 0;

  // Later work on the stream finds the unit's parameters updated. Called for every unit after each Update, in order.
  virtual absl::Status FinishUnit(int unit) = 0;

  // Makes this rank's part of `parameters` from one of the state vectors (0: the master weights), after the state was
  // loaded. An update that is held back is dropped.
  virtual absl::Status Publish(device::Tensor parameters, size_t vector) = 0;

  // Traffic since construction; none where states and parameters are in one memory.
  virtual LinkTraffic link() const = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_UPDATER_H_
