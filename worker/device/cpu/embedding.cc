// Token and position embeddings (ops.h).
//
// The backward shares columns, not tokens, among the threads: each thread walks all tokens in order for its columns,
// so a token that occurs twice is added in token order and no two threads touch one element.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {

void CpuOps::EmbeddingForward(Stream&, const EmbeddingForwardArguments& p) {
  pool_.RunBlocks(p.batch * p.time, RowBlock(p.c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Tensor of_token = p.wte.Offset(p.tokens[row] * p.c), x = p.x.Offset(row * p.c);
      if (p.wpe) {
        kernels::Add(p.c, of_token, p.wpe.Offset(PositionOf(p, row) * p.c), x);
      } else {
        kernels::Convert(p.c, of_token, x);
      }
    }
  });
}

void CpuOps::EmbeddingBackward(Stream&, const EmbeddingBackwardArguments& p) {
  pool_.RunBlocks(p.c, kernels::kColumnBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < p.batch * p.time; ++row) {
      const Tensor from = p.dx.Offset(row * p.c + begin);
      kernels::Accumulate(end - begin, from, p.dwte + p.tokens[row] * p.c + begin);
      if (p.dwpe != nullptr) kernels::Accumulate(end - begin, from, p.dwpe + PositionOf(p, row) * p.c + begin);
    }
  });
}

}  // namespace zerofleet::device
