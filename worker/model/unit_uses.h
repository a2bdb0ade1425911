// What a model asks of its ParameterSource, found by asking it.
#ifndef ZEROFLEET_WORKER_MODEL_UNIT_USES_H_
#define ZEROFLEET_WORKER_MODEL_UNIT_USES_H_

#include "absl/status/statusor.h"
#include "worker/model/model.h"

namespace zerofleet::model {

// Runs both passes of `model`, which was made on a DryDevice for one sequence of one token, and records their uses.
absl::StatusOr<UnitUses> RecordUses(Model& model, device::DType dtype);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_UNIT_USES_H_
