// What a model needs of whoever holds its parameters: borrow a unit, give it back, deliver its gradient.
//
// The model never looks up at ZeRO; worker/zero implements this. Which units are used, and in what order, is fixed by
// the model (Model::uses), so that an implementation can fetch the next unit ahead of its use.
#ifndef ZEROFLEET_WORKER_MODEL_PARAMETER_SOURCE_H_
#define ZEROFLEET_WORKER_MODEL_PARAMETER_SOURCE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/ops.h"

namespace zerofleet::model {

class ParameterSource {
 public:
  virtual ~ParameterSource() = default;

  // The whole unit in the compute type, its tensors in table order; valid until Release. Uses come in the model's
  // order.
  virtual absl::StatusOr<device::Tensor> Acquire(int unit) = 0;
  virtual void Release(int unit) = 0;

  // Where the unit's gradient is summed, fp32, whole unit; the first call of a micro-batch makes it fit to add to.
  virtual absl::StatusOr<float*> Gradient(int unit) = 0;
  // The unit's gradient of this micro-batch is complete.
  virtual absl::Status DeliverGradient(int unit) = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_PARAMETER_SOURCE_H_
