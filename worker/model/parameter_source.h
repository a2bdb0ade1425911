// What a model needs of whoever holds its parameters: borrow a unit, give it back, deliver its gradient.
//
// The model never looks up at ZeRO; worker/zero implements this. Which units are used, and in what order, is fixed by
// the model (Model::uses), so that an implementation can fetch the next unit ahead of its use.
#ifndef ZEROFLEET_WORKER_MODEL_PARAMETER_SOURCE_H_
#define ZEROFLEET_WORKER_MODEL_PARAMETER_SOURCE_H_

#include <cstdint>

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

  // Whether the unit's gradient is wanted: a frozen one's is neither asked for nor delivered.
  virtual bool Trains(int /*unit*/) const { return true; }
  // Where the unit's gradient is summed, fp32, whole unit; the first call of a micro-batch makes it fit to add to.
  virtual absl::StatusOr<float*> Gradient(int unit) = 0;
  // The unit's gradient of this micro-batch is complete.
  virtual absl::Status DeliverGradient(int unit) = 0;

  // Whether gradients are taken in bands instead, so that none is whole in fp32 (ZeRO §6.2): a training pass then calls
  // DeliverBand, and neither of the two above.
  virtual bool TakesBands() const { return false; }
  // Elements `begin` to `begin + count` of the unit's gradient of this micro-batch, fp32: each once, every one before
  // the pass is over. What is enqueued afterwards may overwrite `values`.
  virtual absl::Status DeliverBand(int /*unit*/, int64_t /*begin*/, int64_t /*count*/, const float* /*values*/) {
    return absl::UnimplementedError("gradients are not taken in bands");
  }
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_PARAMETER_SOURCE_H_
