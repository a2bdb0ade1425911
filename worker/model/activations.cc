// Places computed once, from the rows; see activations.h.
#include "worker/model/activations.h"

#include <algorithm>

#include "base/units.h"
#include "worker/model/model.h"

namespace zerofleet::model {

Segments::Segments(const Checkpointing& checkpointing, int64_t layers)
    : layers_(layers), length_(std::min(checkpointing.segment, layers)) {}

Activations::Activations(const Declaration& block, const Segments& segments, const KeptInputs& kept_inputs,
                         bool selective, int64_t tokens, int64_t stream_tokens, device::DType dtype)
    : segments_(segments),
      kept_inputs_(kept_inputs),
      rows_(block.activations()),
      selective_(selective),
      tokens_(tokens),
      stream_tokens_(stream_tokens),
      hidden_(block.sizes().hidden),
      dtype_(dtype) {
  PlaceRows(rows_);
}

int64_t Activations::RowBytes(const ActivationRow& row) const {
  const int64_t tokens = row.tokens == ActivationRow::Tokens::kAll ? tokens_ : stream_tokens_;
  const device::DType dtype = row.statistics ? device::DType::kF32 : dtype_;
  return RoundUp(tokens * row.columns * device::DTypeBytes(dtype), KeptInputs::kAlignment);
}

// Rows that are always kept come first.
void Activations::PlaceRows(const std::vector<ActivationRow>& rows) {
  places_.resize(rows.size());
  for (const bool cheap : {false, true}) {
    for (size_t row = 0; row < rows.size(); ++row) {
      if (rows[row].cheap != cheap) continue;
      if (cheap && selective_) {
        places_[row] = {true, PlaceShared(rows, row)};
      } else {
        places_[row] = {false, block_bytes_};
        block_bytes_ += RowBytes(rows[row]);
      }
    }
  }
}

// Returns the place of an earlier row of the same size that no row of this one's branch uses, or a new place.
int64_t Activations::PlaceShared(const std::vector<ActivationRow>& rows, size_t row) {
  const auto is_at = [&](size_t other, int64_t offset) {
    return places_[other].shared && places_[other].offset == offset;
  };
  for (size_t earlier = 0; earlier < row; ++earlier) {
    if (!places_[earlier].shared || RowBytes(rows[earlier]) != RowBytes(rows[row])) continue;
    bool free = true;
    for (size_t other = 0; other < row; ++other) {
      free = free && !(rows[other].branch == rows[row].branch && is_at(other, places_[earlier].offset));
    }
    if (free) return places_[earlier].offset;
  }
  shared_bytes_ += RowBytes(rows[row]);
  return shared_bytes_ - RowBytes(rows[row]);
}

int64_t Activations::InputBytes() const {
  return RoundUp(stream_tokens_ * hidden_ * device::DTypeBytes(dtype_), KeptInputs::kAlignment);
}

int64_t Activations::Bytes() const {
  return InputBytes() + shared_bytes_ + SegmentBytes() + kept_inputs_.DeviceBytes();
}

int64_t Activations::SegmentAt() const {
  return one_segment() ? KeptAt() + kept_inputs_.DeviceBytes() : SharedAt() + shared_bytes_;
}

int64_t Activations::BlockAt(int64_t layer) const {
  return SegmentAt() + (segments_.length() - 1) * InputBytes() + layer % segments_.length() * block_bytes_;
}

std::vector<memory::Piece> Activations::Pieces(int units) const {
  // A piece that is in use until the backward of this block; -1 stands for the embedding.
  const auto until = [&](int64_t bytes, int64_t layer) {
    return memory::Piece{bytes, kForwardPhase, BackwardPhase(static_cast<int>(layer) + 1, units)};
  };
  constexpr int64_t kEmbedding = -1;
  std::vector<memory::Piece> pieces = {until(InputBytes(), kEmbedding), until(shared_bytes_, 0)};
  if (!one_segment()) pieces.push_back(until(SegmentBytes(), 0));
  for (const KeptInputs::PlaceOnDevice& place : kept_inputs_.Places()) {
    pieces.push_back(until(place.bytes, std::max<int64_t>(place.segment, 0) * segments_.length()));
  }
  if (!one_segment()) return pieces;
  for (int64_t layer = 1; layer < segments_.length(); ++layer) pieces.push_back(until(InputBytes(), layer));
  for (int64_t layer = 0; layer < segments_.length(); ++layer) pieces.push_back(until(block_bytes_, layer));
  return pieces;
}

int64_t Activations::InputAt(int64_t layer) const {
  if (layer == segments_.layers()) return 0;
  const int64_t index = layer % segments_.length();
  if (index == 0) return KeptAt() + kept_inputs_.WholeAt(segments_.Of(layer));
  return SegmentAt() + (index - 1) * InputBytes();
}

int64_t Activations::RowAt(int64_t layer, int row) const {
  return (places_[row].shared ? SharedAt() : BlockAt(layer)) + places_[row].offset;
}

}  // namespace zerofleet::model
