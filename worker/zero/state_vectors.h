// The vectors of the training state that a rank keeps between steps, as a table: what operators are shown.
#ifndef ZEROFLEET_WORKER_ZERO_STATE_VECTORS_H_
#define ZEROFLEET_WORKER_ZERO_STATE_VECTORS_H_

#include <vector>

#include "coordinator/ownership.h"
#include "worker/zero/layout.h"

namespace zerofleet::zero {

// Parameters, gradients, then the optimizer's states by name. The bytes are those of PlanMemory's rows.
std::vector<coordinator::StateVector> StateVectors(const ZeroLayout& layout);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STATE_VECTORS_H_
