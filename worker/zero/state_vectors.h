// The vectors of the training state that a rank keeps between steps, as the table that operators are shown.
#ifndef ZEROFLEET_WORKER_ZERO_STATE_VECTORS_H_
#define ZEROFLEET_WORKER_ZERO_STATE_VECTORS_H_

#include <vector>

#include "coordinator/ownership.h"
#include "worker/zero/layout.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {

// Parameters, gradients, then the optimizer's states by name. Bytes per element as in PlanMemory's rows.
inline std::vector<coordinator::StateVector> StateVectors(const ZeroLayout& layout) {
  const StageRow& stage = layout.stage();
  std::vector<coordinator::StateVector> states = {
      {kParametersRow, device::DTypeBytes(layout.options().dtype), stage.split_parameters, /*of_frozen=*/true},
      {kGradientsRow, device::DTypeBytes(layout.gradient_dtype()), stage.split_gradients}};
  for (const optim::OptimizerVector& vector : layout.optimizer().vectors) {
    states.push_back({vector.name, device::DTypeBytes(vector.dtype), stage.split_optimizer});
  }
  return states;
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STATE_VECTORS_H_
