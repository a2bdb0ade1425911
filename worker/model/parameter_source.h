// What a model needs from the holder of its parameters: borrow a unit, give it back, deliver its gradient.
//
// The model knows nothing of ZeRO; worker/zero implements this. The model fixes which units are used, and in what order
// (Model::uses), so that an implementation can fetch the next unit ahead of its use.
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

  // Returns the whole unit in the compute type, its tensors in table order; valid until Release. Calls come in the
  // model's order.
  virtual absl::StatusOr<device::Tensor> Acquire(int unit) = 0;
  virtual void Release(int unit) = 0;

  // Whether the unit's gradient is wanted; the gradient of a frozen unit is neither requested nor delivered.
  virtual bool Trains(int /*unit*/) const { return true; }
  // Where the gradient of the whole unit is summed, in fp32; the first call of a micro-batch prepares it for adding.
  virtual absl::StatusOr<float*> Gradient(int unit) = 0;
  // In place of Gradient, for a unit each of whose elements a pass makes once: where they are to be written, in fp32 or
  // the compute type, and not added to what is there. Null: call Gradient.
  virtual absl::StatusOr<device::Tensor> WrittenGradient(int /*unit*/) { return device::Tensor{}; }
  // Says that the unit's gradient of this micro-batch is complete.
  virtual absl::Status DeliverGradient(int unit) = 0;

  // Whether gradients are taken in bands, so that no unit's is whole in fp32 (ZeRO §6.2): a training pass then calls
  // DeliverBand, and none of the three above.
  virtual bool TakesBands() const { return false; }
  // Delivers elements [begin, begin + count) of the unit's gradient of this micro-batch, in fp32 or the compute type.
  // Each element is delivered once, before the pass is over. Work that is enqueued afterwards may overwrite `values`.
  virtual absl::Status DeliverBand(int /*unit*/, int64_t /*begin*/, int64_t /*count*/, device::Tensor /*values*/) {
    return absl::UnimplementedError("gradients are not taken in bands");
  }
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_PARAMETER_SOURCE_H_
