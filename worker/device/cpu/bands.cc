// Gradients of parameters in bands of rows (band_ops.h): the products of the other files, cut between their tiles.
//
// The embedding's gradient needs the logits' gradient, which is not kept. For a band of the vocabulary the tiles of the
// logits that contain it are computed again, and what is kept of each token's softmax turns them into their gradient,
// with the bits that it had. The tiles keep their places and the strides of the whole logits: which implementation
// oneDNN uses for a product, and so its bits, depends on strides too.
#include <algorithm>

#include "base/units.h"
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/logits_gradient.h"
#include "worker/device/cpu/matmul.h"
#include "worker/device/cpu/row_sums.h"

namespace zerofleet::device {
// Follows from the types alone: the same for a linear layer's gradient and the output embedding's.
int64_t CpuOps::BandRows(int64_t rows, DType dtype) const {
  return OutputTileOf({.m = rows,
                       .n = 1,
                       .k = 1,
                       .a = {{nullptr, dtype}, rows, /*transposed=*/true},
                       .b = {{nullptr, dtype}, 1},
                       .c = {{nullptr, DType::kF32}, 1},
                       .accumulate = true})
      .m;
}

void CpuOps::LinearBackwardWeightBand(Stream& stream, const LinearBackwardWeightArguments& p, const RowBand& band) {
  static_cast<CpuStream&>(stream).Keep(Matmul(pool_, {.m = band.count,
                                                      .n = p.k,
                                                      .k = p.m,
                                                      .a = {p.dy.Offset(band.first), p.n, /*transposed=*/true},
                                                      .b = {p.x, p.k},
                                                      .c = {p.gradient(), p.k},
                                                      .accumulate = !p.written,
                                                      .whole_m = p.n}));
  if (p.dbias == nullptr) return;
  SumOverRows(pool_, p.m, band.count, {&p.dbias, 1}, [&](int64_t begin, int64_t end, float* partial) {
    kernels::SumRows(end - begin, p.n, band.count, p.dy.Offset(begin * p.n + band.first), partial);
  });
}

void CpuOps::CrossEntropyBand(Stream& stream, const CrossEntropyBandArguments& p) {
  const int64_t vocab = p.part.rows;
  const LogitsGradientPlan plan(p.in_parts ? p.rows : p.m, p.rows, vocab, p.x.dtype);
  std::byte* const scratch = static_cast<std::byte*>(p.scratch);
  const Tensor dlogits = plan.Gradient(scratch).Offset(p.band.first);
  for (int64_t first = 0; first < p.m; first += plan.rows) {
    const int64_t rows = std::min(plan.rows, p.m - first);
    for (int64_t row = first; row < first + rows; row += plan.logits_rows) {
      const int64_t count = std::min(plan.logits_rows, first + rows - row);
      LogitsGradientOfBand(stream, p, row, count, plan.Logits(scratch), dlogits.Offset((row - first) * vocab));
    }
    static_cast<CpuStream&>(stream).Keep(Matmul(pool_, {.m = p.band.count,
                                                        .n = p.c,
                                                        .k = rows,
                                                        .a = {dlogits, vocab, /*transposed=*/true},
                                                        .b = {p.x.Offset(first * p.c), p.c},
                                                        .c = {{p.dw, DType::kF32}, p.c},
                                                        .accumulate = true,
                                                        .whole_m = vocab}));
  }
}

// Computes the band's logits of `count` tokens from `first` again, and their gradient, in `dlogits`, which may be their
// place.
void CpuOps::LogitsGradientOfBand(Stream& stream, const CrossEntropyBandArguments& p, int64_t first, int64_t count,
                                  Tensor logits, Tensor dlogits) {
  const int64_t vocab = p.part.rows, end = p.band.first + p.band.count;
  MatmulArguments part{.m = count,
                       .n = vocab,
                       .k = p.c,
                       .a = {p.x.Offset(first * p.c), p.c},
                       .b = {p.w, p.c, /*transposed=*/true},
                       .c = {logits, vocab},
                       .whole_n = vocab};
  const int64_t tile = OutputTileOf(part).n;
  const int64_t left = p.band.first / tile * tile;
  part.n = std::min(RoundUp(end, tile), vocab) - left;
  part.b.data = p.w.Offset(left * p.c);
  part.c.data = logits.Offset(left);
  static_cast<CpuStream&>(stream).Keep(Matmul(pool_, part));

  pool_.RunBlocks(count, RowBlock(p.band.count), [&](int64_t begin, int64_t block_end) {
    for (int64_t row = begin; row < block_end; ++row) {
      const Tensor at = logits.Offset(row * vocab + p.band.first), to = dlogits.Offset(row * vocab);
      float* const values = static_cast<float*>(at.data);
      kernels::LogitsGradientRow(p.band.count, p.kept[first + row], values);
      const int64_t target = p.targets[first + row] - p.part.first - p.band.first;
      if (target >= 0 && target < p.band.count) values[target] -= *p.gradient_scale;
      if (to.dtype != DType::kF32) kernels::Convert(p.band.count, at, to);
    }
  });
}

void CpuOps::EmbeddingBackwardBand(Stream&, const EmbeddingBackwardArguments& p, const VocabularyPart& tokens) {
  pool_.RunBlocks(p.c, kernels::kColumnBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < p.batch * p.time; ++row) {
      const int64_t at = p.tokens[row] - tokens.first;
      if (at < 0 || at >= tokens.rows) continue;
      kernels::Accumulate(end - begin, p.dx.Offset(row * p.c + begin), p.dwte + at * p.c + begin);
    }
  });
}

// Adds in the order of the tokens, as EmbeddingBackward does.
void CpuOps::PackedPositionsBand(const EmbeddingBackwardArguments& p, const RowBand& positions) {
  pool_.RunBlocks(p.c, kernels::kColumnBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < p.batch * p.time; ++row) {
      const int64_t at = PositionOf(p, row) - positions.first;
      if (at < 0 || at >= positions.count) continue;
      kernels::Accumulate(end - begin, p.dx.Offset(row * p.c + begin), p.dwpe + at * p.c + begin);
    }
  });
}

void CpuOps::PositionsBackwardBand(Stream&, const EmbeddingBackwardArguments& p, const RowBand& positions) {
  if (p.starts != nullptr) return PackedPositionsBand(p, positions);
  const int64_t last = std::min(positions.first + positions.count, p.time);
  pool_.RunBlocks(p.c, kernels::kColumnBlock, [&](int64_t begin, int64_t end) {
    for (int64_t sequence = 0; sequence < p.batch; ++sequence) {
      for (int64_t time = positions.first; time < last; ++time) {
        const Tensor from = p.dx.Offset((sequence * p.time + time) * p.c + begin);
        kernels::Accumulate(end - begin, from, p.dwpe + (time - positions.first) * p.c + begin);
      }
    }
  });
}

}  // namespace zerofleet::device
