// See norm.h.
#include "worker/zero/norm.h"

namespace zerofleet::zero {

void SumOwnedSquares(const ZeroLayout& layout, int unit, device::Tensor gradient, device::Ops& ops,
                     device::Stream& stream, double* squares) {
  double* to = squares + layout.FirstCounted(unit);
  for (const ZeroLayout::ShardRange& range : layout.Counted(unit)) {
    ops.SumSquares(stream, range.elements, gradient.Offset(range.begin), to++);
  }
}

}  // namespace zerofleet::zero
