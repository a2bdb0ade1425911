// See norm.h.
#include "worker/zero/norm.h"

namespace zerofleet::zero {

void SumOwnedSquares(const ZeroLayout& layout, int unit, device::Tensor gradient, device::Ops& ops,
                     device::Stream& stream, double* squares) {
  ops.SumSquares(stream, layout.Owned(unit).elements(), gradient, squares + unit);
}

}  // namespace zerofleet::zero
