// LayerNorm (ops.h; Ba, Kiros and Hinton 2016): rows for the activations, columns for the parameters' gradients.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet {

void CpuOps::LayerNormForward(Stream&, int64_t m, int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta,
                              Tensor y, float* mean, float* rstd) {
  pool_.RunBlocks(m, RowBlock(c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels::LayerNormRow(c, epsilon, x.Offset(row * c), gamma, beta, y.Offset(row * c), mean + row, rstd + row);
    }
  });
}

void CpuOps::LayerNormBackward(Stream&, int64_t m, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* mean,
                               const float* rstd, Tensor dx, float* dgamma, float* dbeta) {
  pool_.RunBlocks(m, RowBlock(c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * c;
      kernels::LayerNormRowGradient(c, dy.Offset(at), x.Offset(at), gamma, mean[row], rstd[row], dx.Offset(at));
    }
  });
  pool_.RunBlocks(c, kernels::kColumnBlock, [&](int64_t begin, int64_t end) {
    kernels::LayerNormColumns(m, c, begin, end, dy, x, mean, rstd, dgamma, dbeta);
  });
}

}  // namespace zerofleet
