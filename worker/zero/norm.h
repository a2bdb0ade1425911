// The gradient norm's parts on this rank.
//
// Each rank squares only the gradients it owns, so nothing is counted twice; the ranks' sums are gathered with the
// other scalars of the step (StepScalars, 24 bytes per rank) and added in rank order, so that every rank, in every
// stage, gets the same bits.
#ifndef ZEROFLEET_WORKER_ZERO_NORM_H_
#define ZEROFLEET_WORKER_ZERO_NORM_H_

#include "worker/device/ops.h"
#include "worker/zero/layout.h"

namespace zerofleet::zero {

// squares[unit] = the sum of squares of `gradient`, this rank's shard of the unit, reduced; device memory for
// layout.units() doubles.
void SumOwnedSquares(const ZeroLayout& layout, int unit, device::Tensor gradient, device::Ops& ops,
                     device::Stream& stream, double* squares);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_NORM_H_
