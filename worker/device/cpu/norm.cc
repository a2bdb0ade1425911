// LayerNorm (ops.h; Ba, Kiros and Hinton 2016).
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/row_sums.h"

namespace zerofleet::device {

void CpuOps::LayerNormForward(Stream&, const LayerNormForwardArguments& p) {
  pool_.RunBlocks(p.m, RowBlock(p.c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels::LayerNormRow(p.c, p.epsilon, p.x.Offset(row * p.c), p.gamma, p.beta, p.y.Offset(row * p.c), p.mean + row,
                            p.rstd + row);
    }
  });
}

void CpuOps::LayerNormBackward(Stream&, const LayerNormBackwardArguments& p) {
  float* const sums[] = {p.dgamma, p.dbeta};
  SumOverRows(pool_, p.m, p.c, sums, [&](int64_t begin, int64_t end, float* partial) {
    const int64_t at = begin * p.c;
    kernels::LayerNormRowsGradient(end - begin, p.c, p.dy.Offset(at), p.x.Offset(at), p.gamma, p.mean + begin,
                                   p.rstd + begin, p.dx.Offset(at), partial, partial + p.c);
  });
}

}  // namespace zerofleet::device
