// Which units a model requests from its ParameterSource, found by running it.
#ifndef ZEROFLEET_WORKER_MODEL_UNIT_USES_H_
#define ZEROFLEET_WORKER_MODEL_UNIT_USES_H_

#include "absl/status/statusor.h"
#include "worker/model/model.h"

namespace zerofleet::model {

// Runs a training pass and an evaluation of `model`, which was made on a DryDevice for one sequence of one token, and
// records the units used.
absl::StatusOr<UnitUses> RecordUses(Model& model, device::DType dtype);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_UNIT_USES_H_
