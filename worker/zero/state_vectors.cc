// Rows of the table; see state_vectors.h.
#include "worker/zero/state_vectors.h"

#include "worker/zero/memory_plan.h"

namespace zerofleet {

std::vector<StateVector> StateVectors(const ZeroLayout& layout) {
  const StageRow& stage = layout.stage();
  std::vector<StateVector> states = {{kParametersRow, DTypeBytes(layout.options().dtype), stage.split_parameters},
                                     {kGradientsRow, DTypeBytes(layout.gradient_dtype()), stage.split_gradients}};
  for (const OptimizerVector& vector : layout.optimizer().vectors) {
    states.push_back({vector.name, DTypeBytes(vector.dtype), stage.split_optimizer});
  }
  return states;
}

}  // namespace zerofleet
