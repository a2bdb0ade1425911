// Rows of the table; see state_vectors.h.
#include "worker/zero/state_vectors.h"

#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {

std::vector<coordinator::StateVector> StateVectors(const ZeroLayout& layout) {
  const StageRow& stage = layout.stage();
  std::vector<coordinator::StateVector> states = {
      {kParametersRow, device::DTypeBytes(layout.options().dtype), stage.split_parameters},
      {kGradientsRow, device::DTypeBytes(layout.gradient_dtype()), stage.split_gradients}};
  for (const optim::OptimizerVector& vector : layout.optimizer().vectors) {
    states.push_back({vector.name, device::DTypeBytes(vector.dtype), stage.split_optimizer});
  }
  return states;
}

}  // namespace zerofleet::zero
