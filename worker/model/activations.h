// Where the activations that a forward pass keeps for its backward lie in the memory that a model is given: the rows
// that a block declares, as the checkpointing policy keeps them (docs/decisions/0003-activations-kept.md).
//
// Every block of a segment has a place for each of its rows. In selective checkpointing the rows that are cheap to
// compute again have places that all blocks take in turn; branches of a block share them too, since the backward of a
// branch recomputes only its own. The memory holds, in this order: the last block's output; the rows shared by all
// blocks; the segments' inputs (kept_inputs.h); the other inputs of a segment's blocks; each block's own rows. With
// several segments, which take the last two in turn, those two come before the segments' inputs: the backward is done
// first with what lies at the end of this memory.
#ifndef ZEROFLEET_WORKER_MODEL_ACTIVATIONS_H_
#define ZEROFLEET_WORKER_MODEL_ACTIVATIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/device/tensor.h"
#include "worker/memory/placement.h"
#include "worker/model/checkpointing.h"
#include "worker/model/declaration.h"
#include "worker/model/kept_inputs.h"

namespace zerofleet::model {

// Blocks in segments, of which all but the last are computed again in the backward.
class Segments {
 public:
  Segments(const Checkpointing& checkpointing, int64_t layers);

  int64_t count() const { return (layers_ + length_ - 1) / length_; }
  int64_t length() const { return length_; }
  int64_t layers() const { return layers_; }
  int64_t Of(int64_t layer) const { return layer / length_; }
  bool Begins(int64_t layer) const { return layer % length_ == 0; }
  // Whether the block is the last of a segment that the backward computes again, which is any segment but the last.
  bool EndsRecomputed(int64_t layer) const { return (layer + 1) % length_ == 0 && layer + 1 < layers_; }

 private:
  const int64_t layers_, length_;
};

class Activations {
 public:
  // For micro-batches of at most `tokens` tokens; this rank has `stream_tokens` of them of the residual stream.
  // `block`, `segments` and `kept_inputs` are borrowed.
  Activations(const Declaration& block, const Segments& segments, const KeptInputs& kept_inputs, bool selective,
              int64_t tokens, int64_t stream_tokens, device::DType dtype);

  int64_t Bytes() const;
  // The pieces of this memory, and the phases in which a training pass of `units` units uses each (model.h).
  std::vector<memory::Piece> Pieces(int units) const;

  // Offsets in this memory: of a block's input (`layer` may be the number of blocks: the last block's output), of a row
  // that a block declares, and of the memory of the segments' inputs (kept_inputs.h).
  int64_t InputAt(int64_t layer) const;
  int64_t RowAt(int64_t layer, int row) const;
  int64_t KeptAt() const { return SharedAt() + shared_bytes_ + (one_segment() ? 0 : SegmentBytes()); }

  int64_t layers() const { return segments_.layers(); }
  device::DType dtype() const { return dtype_; }
  device::DType dtype(int row) const { return rows_[row].statistics ? device::DType::kF32 : dtype_; }

 private:
  struct Place {
    bool shared;  // all blocks use this place
    int64_t offset;
  };
  int64_t RowBytes(const ActivationRow& row) const;
  // Gives each row its place among its block's rows, or among the rows that all blocks share.
  void PlaceRows(const std::vector<ActivationRow>& rows);
  int64_t PlaceShared(const std::vector<ActivationRow>& rows, size_t row);

  bool one_segment() const { return segments_.count() == 1; }
  int64_t InputBytes() const;
  // Bytes of one segment: its blocks' inputs except the first, and what the blocks produce.
  int64_t SegmentBytes() const { return (segments_.length() - 1) * InputBytes() + segments_.length() * block_bytes_; }
  int64_t SharedAt() const { return InputBytes(); }
  int64_t SegmentAt() const;
  int64_t BlockAt(int64_t layer) const;

  const Segments& segments_;
  const KeptInputs& kept_inputs_;
  const std::vector<ActivationRow> rows_;
  const bool selective_;
  const int64_t tokens_, stream_tokens_, hidden_;
  const device::DType dtype_;
  std::vector<Place> places_;  // indexed by row
  int64_t block_bytes_ = 0, shared_bytes_ = 0;
};

// The activations in the memory of a pass. Borrows both arguments.
class ActivationMemory {
 public:
  ActivationMemory(const Activations& places, void* memory)
      : places_(places), memory_(static_cast<std::byte*>(memory)) {}

  device::Tensor Input(int64_t layer) const { return {memory_ + places_.InputAt(layer), places_.dtype()}; }
  // The next block's input, or FinalInput.
  device::Tensor Output(int64_t layer) const { return Input(layer + 1); }
  // The head's input, which is the last block's output. The backward puts the residual stream's gradient in its place.
  device::Tensor FinalInput() const { return Input(places_.layers()); }
  device::Tensor At(int64_t layer, int row) const { return {memory_ + places_.RowAt(layer, row), places_.dtype(row)}; }
  void* KeptInputsMemory() const { return memory_ + places_.KeptAt(); }

 private:
  const Activations& places_;
  std::byte* const memory_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_ACTIVATIONS_H_
