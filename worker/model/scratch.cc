// The one description of where scratch is: carving a null buffer gives its size. See scratch.h.
#include "worker/model/scratch.h"

#include <algorithm>

#include "worker/model/declaration.h"
#include "worker/model/part.h"

namespace zerofleet::model {

Scratch ScratchSizes::Carve(Carver& carver, device::Ops& ops) const {
  Scratch scratch;
  scratch.wide = carver.Matrix(tokens * wide, dtype);
  scratch.narrow = carver.Matrix(tokens * hidden, dtype);
  scratch.head_mean = carver.Floats(stream_tokens);
  scratch.head_rstd = carver.Floats(stream_tokens);
  scratch.attention = carver.Bytes(attention_bytes);
  if (adapter_columns > 0) {
    const int64_t piece = std::min(tokens, kAdapterTokens);
    scratch.adapter_reduced = carver.Matrix(piece * adapter_rank, dtype);
    scratch.adapter_wide = carver.Matrix(piece * adapter_columns, dtype);
    scratch.adapter_gradients =
        carver.Matrix(Declaration::kMostAdapters * AdapterGradientElements(tokens, adapter_rank), dtype);
    scratch.adapter_sums = carver.Floats(adapter_sums);
  }
  scratch.norm_gradients = carver.Floats(norm_sums);
  scratch.vector_sums = {carver.Floats(vectors), static_cast<size_t>(vectors)};
  CarveLoss(carver, ops, scratch);
  if (!in_bands) return scratch;
  scratch.head_input = carver.Matrix(tokens * hidden, dtype);
  scratch.logits_gradient =
      static_cast<device::LogitsGradient*>(carver.Bytes(tokens * static_cast<int64_t>(sizeof(device::LogitsGradient))));
  return scratch;
}

void ScratchSizes::CarveLoss(Carver& carver, device::Ops& ops, Scratch& scratch) const {
  if (parts == 1) {
    scratch.cross_entropy = carver.Bytes(ops.CrossEntropyScratchBytes(tokens, hidden, vocab, dtype));
    return;
  }
  const int64_t rows_of_part = RowsOfPart(vocab, {.index = 0, .count = parts}).all,
                rows = device::LogitsRows(tokens, rows_of_part);
  scratch.softmax =
      static_cast<device::SoftmaxPart*>(carver.Bytes(parts * rows * static_cast<int64_t>(sizeof(device::SoftmaxPart))));
  scratch.logits = carver.Bytes(ops.vocabulary().PartLogitsScratchBytes(rows, rows_of_part, dtype));
}

}  // namespace zerofleet::model
