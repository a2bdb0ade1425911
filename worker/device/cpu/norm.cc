// LayerNorm (ops.h; Ba, Kiros and Hinton 2016): rows for the activations, columns for the parameters' gradients.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

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
  pool_.RunBlocks(p.m, RowBlock(p.c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * p.c;
      kernels::LayerNormRowGradient(p.c, p.dy.Offset(at), p.x.Offset(at), p.gamma, p.mean[row], p.rstd[row],
                                    p.dx.Offset(at));
    }
  });
  if (p.dgamma == nullptr) return;
  pool_.RunBlocks(p.c, kernels::kColumnBlock, [&](int64_t begin, int64_t end) {
    kernels::LayerNormColumns(p.m, p.c, begin, end, p.dy, p.x, p.mean, p.rstd, p.dgamma, p.dbeta);
  });
}

}  // namespace zerofleet::device
