// See norm.h.
#include "worker/zero/norm.h"

namespace zerofleet {

void SumOwnedSquares(const ZeroLayout& layout, Tensor gradients, Ops& ops, Stream& stream, double* squares) {
  for (int u = 0; u < layout.units(); ++u) {
    Tensor shard = gradients.Offset(layout.ShardOffset(u, layout.stage().split_gradients));
    ops.SumSquares(stream, layout.Owned(u).elements(), shard, squares + u);
  }
}

}  // namespace zerofleet
