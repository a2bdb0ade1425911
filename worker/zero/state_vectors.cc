// Rows of the table; see state_vectors.h.
#include "worker/zero/state_vectors.h"

#include "worker/zero/memory_plan.h"

namespace zerofleet {

std::vector<StateVector> StateVectors(const ZeroLayout& layout) {
  const StageRow& stage = layout.stage();
  std::vector<StateVector> states = {{kParametersRow, DTypeBytes(layout.options().dtype), stage.split_parameters},
                                     {kGradientsRow, DTypeBytes(layout.gradient_dtype()), stage.split_gradients}};
  for (const char* name : {kMasterRow, kExpAvgRow, kExpAvgSqRow}) {
    states.push_back({name, DTypeBytes(DType::kF32), stage.split_optimizer});
  }
  return states;
}

}  // namespace zerofleet
