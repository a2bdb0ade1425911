// What a transformer needs of memory and computes again, from what its rows declare; see transformer.h.
#include <algorithm>
#include <vector>

#include "worker/device/band_ops.h"
#include "worker/model/transformer.h"

namespace zerofleet::model {

ScratchSizes Transformer::SizesOfScratch() const {
  const Declaration& block = block_.declared();
  const int64_t tokens = most_sequences_ * most_time_;
  return {.dtype = dtype_,
          .tokens = tokens,
          .stream_tokens = residual_.Tokens(tokens),
          .hidden = sizes_.hidden,
          .wide = block.gradient_columns(),
          .attention_bytes = block_.AttentionScratchBytes(ops_, most_sequences_, most_time_),
          .norm_sums = std::max(block.norm_sums(), head_declared_.norm_sums()),
          .vectors = std::max(block.vectors(), head_declared_.vectors()),
          .adapter_rank = sizes_.lora_rank,
          .adapter_columns = block.adapter_columns(),
          .adapter_sums = block.adapter_sums(),
          .vocab = sizes_.vocab,
          .parts = residual_.part().count,
          .in_bands = checkpointing_.band_bytes > 0};
}

int64_t Transformer::ScratchBytes() const {
  Carver carver(nullptr);
  SizesOfScratch().Carve(carver, ops_);
  return carver.used();
}

// The logits come last; they are in use in the head alone, unless bands of the embedding's gradient need them again.
std::vector<memory::Piece> Transformer::ScratchPieces() const {
  if (checkpointing_.band_bytes > 0) return {{ScratchBytes()}};
  Carver logits(nullptr);
  Scratch unused;
  SizesOfScratch().CarveLoss(logits, ops_, unused);
  const int head = BackwardPhase(head_unit(), units());
  return {{ScratchBytes() - logits.used()}, {logits.used(), head, head}};
}

int64_t Transformer::BandBytes() const {
  if (checkpointing_.band_bytes == 0) return 0;
  const auto band = [&](int64_t rows, int64_t columns) { return ops_.bands().BandRows(rows, dtype_) * columns; };
  // Memory must not depend on which part this is, and parts other than the last have equally many tokens.
  const auto of_vocabulary = [&](int index) {
    return band(RowsOfPart(sizes_.vocab, {.index = index, .count = residual_.part().count}).real, sizes_.hidden);
  };
  // The least number of elements that holds a row of positions and a band of each matrix.
  int64_t elements = std::max({sizes_.hidden, of_vocabulary(0), of_vocabulary(residual_.part().count - 1)});
  for (const DeclaredProduct& product : block_.declared().products())
    elements = std::max(elements, band(product.n, product.k));
  return std::max(checkpointing_.band_bytes, elements * device::DTypeBytes(device::DType::kF32));
}

int64_t Transformer::CacheBytes(int64_t capacity) const {
  return sizes_.layers * block_.CachedElements(capacity) * device::DTypeBytes(dtype_);
}

// Counts products alone, as model FLOPs do; norms and activations, all that `selective` recomputes, are left out. A
// segment's last block is recomputed except for its last product, whose result is not needed. Logits are recomputed
// where gradients leave in bands.
double Transformer::RecomputedFlopsPerToken() const {
  const double block = block_.declared().ForwardFlops(), output = block_.declared().LastProductFlops();
  const int64_t segments = (sizes_.layers - 1) / segments_.length();  // all but the last segment
  const double logits =
      checkpointing_.band_bytes > 0 ? 2 * static_cast<double>(sizes_.hidden) * static_cast<double>(sizes_.vocab) : 0;
  return static_cast<double>(segments) * (static_cast<double>(segments_.length()) * block - output) + logits;
}

}  // namespace zerofleet::model
