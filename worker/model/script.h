// The order in which a pass of a foreign model asks for units and delivers their gradients, known beforehand.
//
// What computes the pass is not ours (foreign.h): it may leave units out, or end early. A ScriptedPass stands between
// it and the ParameterSource and makes every pass ask for exactly what the script says, in its order, so that no input
// can make ranks wait for different things: a unit that a pass passes over is gathered all the same, and a gradient
// that does not come is delivered as zeros. What cannot be made to fit is an error that names the unit.
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

// InvalidArgument, naming the event, unless every use ends once it has begun, and a gradient begins and is delivered at
// most once in training, and not in evaluation.
absl::StatusOr<PassScript> ScriptOf(const v1::ForeignModel& foreign);

// InvalidArgument unless the script delivers the gradient of every unit that is trained, and of no other: what a run
// needs, and weights that a run begins with, of which nothing is frozen yet, do not have.
absl::Status CheckDeliveries(const v1::ForeignModel& foreign, const PassScript& script);

// The units that a pass acquires, in order.
std::vector<int> UsesOf(const std::vector<UnitEvent>& events);

class ScriptedPass {
 public:
  // `names` of the units, for messages. Borrows all.
  ScriptedPass(std::span<const UnitEvent> script, std::span<const std::string> names, ParameterSource& parameters);

  // As the ParameterSource's methods, in the order in which the pass happens to need them. A unit may be acquired again
  // while it is held. InvalidArgument where the script has no such event from here on.
  absl::StatusOr<device::Tensor> Acquire(int unit);
  absl::Status Release(int unit);
  absl::StatusOr<float*> Gradient(int unit);
  absl::Status Deliver(int unit);
  // The pass is over: what is left of the script.
  absl::Status Finish();

 private:
  struct UnitState {
    device::Tensor memory = {};
    float* gradient = nullptr;  // from kGradient to kDeliver
    bool open = false;          // acquired, as the source sees it
    bool held = false;          // as the pass sees it
    bool complete = false;      // its gradient, as the pass sees it
    bool delivered = false;
  };

  // Performs what the script has up to the next `wanted`, and that.
  absl::Status AdvanceTo(const UnitEvent& wanted);
  absl::Status Perform(const UnitEvent& event);
  // Performs what needs no more of the pass: releases of units that it holds no longer, complete gradients.
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
