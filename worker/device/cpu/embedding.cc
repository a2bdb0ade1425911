// Token and position embeddings (ops.h).
//
// The backward shares columns, not tokens, among the threads: each thread walks all tokens in order for its columns,
// so a token that occurs twice is added in token order and no two threads touch one element.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet {

void CpuOps::EmbeddingForward(Stream&, int64_t batch, int64_t time, int64_t c, const int32_t* tokens, Tensor wte,
                              Tensor wpe, Tensor x) {
  pool_.RunBlocks(batch * time, RowBlock(c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels::Add(c, wte.Offset(tokens[row] * c), wpe.Offset(row % time * c), x.Offset(row * c));
    }
  });
}

void CpuOps::EmbeddingBackward(Stream&, int64_t batch, int64_t time, int64_t c, const int32_t* tokens, Tensor dx,
                               float* dwte, float* dwpe) {
  pool_.RunBlocks(c, kernels::kColumnBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < batch * time; ++row) {
      const Tensor from = dx.Offset(row * c + begin);
      kernels::Accumulate(end - begin, from, dwte + tokens[row] * c + begin);
      kernels::Accumulate(end - begin, from, dwpe + row % time * c + begin);
    }
  });
}

}  // namespace zerofleet
