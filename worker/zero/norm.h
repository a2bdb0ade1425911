// The gradient norm's parts on this rank.
//
// Each rank squares only the gradients it owns, and of a tensor that all parts of a model have only the first part's,
// so nothing is counted twice; the ranks' sums are gathered with the other scalars of the step (StepScalars, 24 bytes
// per rank) and added in rank order, so that every rank, in every stage, gets the same bits.
#ifndef ZEROFLEET_WORKER_ZERO_NORM_H_
#define ZEROFLEET_WORKER_ZERO_NORM_H_

#include "worker/device/ops.h"
#include "worker/zero/layout.h"

namespace zerofleet::zero {

// Sums of squares of `gradient`, this rank's shard of the unit, reduced: one for each range that counts
// (ZeroLayout::Counted), at its place in `squares`, device memory for layout.counted_ranges() doubles.
inline void SumOwnedSquares(const ZeroLayout& layout, int unit, device::Tensor gradient, device::Ops& ops,
                            device::Stream& stream, double* squares) {
  double* to = squares + layout.FirstCounted(unit);
  for (const ZeroLayout::ShardRange& range : layout.Counted(unit)) {
    ops.SumSquares(stream, range.elements, gradient.Offset(range.begin), to++);
  }
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_NORM_H_
