// See norm.h.
#include "worker/zero/norm.h"

namespace zerofleet::zero {

void SumOwnedSquares(const ZeroLayout& layout, device::Tensor gradients, device::Ops& ops, device::Stream& stream,
                     double* squares) {
  for (int u = 0; u < layout.units(); ++u) {
    device::Tensor shard = gradients.Offset(layout.ShardOffset(u, layout.stage().split_gradients));
    ops.SumSquares(stream, layout.Owned(u).elements(), shard, squares + u);
  }
}

}  // namespace zerofleet::zero
