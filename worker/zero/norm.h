// The gradient norm's parts on this rank.
//
// Each rank squares only the gradients it owns; a tensor that all parts of a model have is squared only in the first
// part. So nothing is counted twice. step_sums.h adds up the ranks' sums.
#ifndef ZEROFLEET_WORKER_ZERO_NORM_H_
#define ZEROFLEET_WORKER_ZERO_NORM_H_

#include "base/check.h"
#include "worker/device/ops.h"
#include "worker/zero/layout.h"

namespace zerofleet::zero {

// Sums the squares of `gradient`, this rank's reduced shard of the unit: one sum for each range that counts
// (ZeroLayout::Counted), at its place in `squares`, device memory for layout.counted_ranges() doubles.
inline void SumOwnedSquares(const ZeroLayout& layout, int unit, device::Tensor gradient, device::Ops& ops,
                            device::Stream& stream, double* squares) {
  double* to = squares + layout.FirstCounted(unit);
  for (const ZeroLayout::ShardRange& range : layout.Counted(unit)) {
    ops.SumSquares(stream, range.elements, gradient.Offset(range.begin), to++);
  }
}

// The same without rounding, for a gradient in fp32: in blocks that do not depend on the shards, since they begin at
// multiples of a block.
inline void SumOwnedSquares(const ZeroLayout& layout, int unit, device::Tensor gradient, device::Ops& ops,
                            device::Stream& stream, device::ExactSum* squares) {
  ZF_CHECK(gradient.dtype == device::DType::kF32);
  device::ExactSum* to = squares + layout.FirstCounted(unit);
  for (const ZeroLayout::ShardRange& range : layout.Counted(unit)) {
    ops.SumSquaresExactly(stream, range.elements, static_cast<const float*>(gradient.Offset(range.begin).data),
                          range.begin % device::kSquaresTogether, to++);
  }
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_NORM_H_
