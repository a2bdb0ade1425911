// The order in which a pass of a foreign model requests units and delivers their gradients, known beforehand.
//
// The pass is computed by foreign code (foreign.h), which may leave units out, or end early. A ScriptedPass stands
// between it and the ParameterSource and makes every pass request exactly what the script says, in its order, so that
// no input can make ranks wait for different things: a unit that the pass leaves out is gathered all the same, and a
// gradient that does not come is delivered as zeros. What cannot be made to fit is an error that names the unit.
#ifndef ZEROFLEET_WORKER_MODEL_SCRIPT_H_
#define ZEROFLEET_WORKER_MODEL_SCRIPT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/tensor.h"
#include "worker/model/parameter_source.h"
#include "zerofleet/v1/foreign.pb.h"

namespace zerofleet::model {

struct UnitEvent {
  enum class What : uint8_t { kAcquire, kRelease, kGradient, kDeliver };
  What what;
  int unit;
  bool operator==(const UnitEvent&) const = default;
};

struct PassScript {
  std::vector<UnitEvent> training, evaluation;
};

// Reads the script. InvalidArgument, naming the event, unless every use that begins also ends, and each gradient begins
// and is delivered at most once in training and never in evaluation.
absl::StatusOr<PassScript> ScriptOf(const v1::ForeignModel& foreign);

// InvalidArgument unless the script delivers the gradient of every trained unit and of no other. A run needs that; the
// weights that a run begins with, in which nothing is frozen yet, need not fulfil it.
absl::Status CheckDeliveries(const v1::ForeignModel& foreign, const PassScript& script);

// The units that a pass acquires, in order.
std::vector<int> UsesOf(const std::vector<UnitEvent>& events);

class ScriptedPass {
 public:
  // `names` are the units' names, for messages. Borrows all arguments.
  ScriptedPass(std::span<const UnitEvent> script, std::span<const std::string> names, ParameterSource& parameters);

  // Like the ParameterSource's methods, called in the order in which the pass happens to need them. A unit may be
  // acquired again while it is held. InvalidArgument if the rest of the script has no such event.
  absl::StatusOr<device::Tensor> Acquire(int unit);
  absl::Status Release(int unit);
  absl::StatusOr<float*> Gradient(int unit);
  absl::Status Deliver(int unit);
  // Called when the pass is over: performs the rest of the script.
  absl::Status Finish();

 private:
  struct UnitState {
    device::Tensor memory = {};
    float* gradient = nullptr;  // from kGradient to kDeliver
    bool open = false;          // acquired from the source
    bool held = false;          // acquired by the pass
    bool complete = false;      // the pass has delivered its gradient
    bool delivered = false;
  };

  // Performs the script's events up to and including the next `wanted`.
  absl::Status AdvanceTo(const UnitEvent& wanted);
  absl::Status Perform(const UnitEvent& event);
  // Performs the next events that need nothing more from the pass: releases of units that it no longer holds,
  // deliveries of complete gradients.
  absl::Status Settle();
  absl::Status OutOfOrder(const UnitEvent& event, const char* why) const;

  const std::span<const UnitEvent> script_;
  const std::span<const std::string> names_;
  ParameterSource& parameters_;
  std::vector<UnitState> units_;
  size_t next_ = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_SCRIPT_H_
