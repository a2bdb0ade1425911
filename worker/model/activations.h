// Where what a forward pass leaves to its backward is in the memory a model is given: the rows that a block declares,
// by the policy of checkpointing (docs/decisions/0003-activations-kept.md).
//
// Every block of a segment has a place for each of its rows; in selective checkpointing those that are cheap to make
// again have one that all blocks take in turn, and branches of a block share it, since each backward makes only its own
// again. Activations are, one after another: the last block's output; what is not kept for each block; the segments'
// inputs (kept_inputs.h); the other inputs of a segment's blocks; what each block of a segment makes. Where segments
// take the last two in turn, they come before the inputs: the end of this memory is what the backward is through with
// first.
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
  // Whether the block is the last of a segment that the backward computes again: of any but the last.
  bool EndsRecomputed(int64_t layer) const { return (layer + 1) % length_ == 0 && layer + 1 < layers_; }

 private:
  const int64_t layers_, length_;
};

class Activations {
 public:
  // For micro-batches of at most `tokens`, of which the residual stream has `stream_tokens` on this rank. Borrows all.
  Activations(const Declaration& block, const Segments& segments, const KeptInputs& kept_inputs, bool selective,
              int64_t tokens, int64_t stream_tokens, device::DType dtype);

  int64_t Bytes() const;
  // What they consist of, and the phases in which a training pass of this many units uses it (model.h).
  std::vector<memory::Piece> Pieces(int units) const;

  // Offsets in it: of a block's input (the last block's output, for the number behind it), of a row that a block
  // declares, and of what the segments' inputs have (kept_inputs.h).
  int64_t InputAt(int64_t layer) const;
  int64_t RowAt(int64_t layer, int row) const;
  int64_t KeptAt() const { return SharedAt() + shared_bytes_ + (one_segment() ? 0 : SegmentBytes()); }

  int64_t layers() const { return segments_.layers(); }
  device::DType dtype() const { return dtype_; }
  device::DType dtype(int row) const { return rows_[row].statistics ? device::DType::kF32 : dtype_; }

 private:
  struct Place {
    bool shared;  // by all blocks
    int64_t offset;
  };
  int64_t RowBytes(const ActivationRow& row) const;
  // Gives each row its place among those of its block, or among those that all share.
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
  std::vector<Place> places_;  // of each row
  int64_t block_bytes_ = 0, shared_bytes_ = 0;
};

// They, in the memory of a pass. Borrows both.
class ActivationMemory {
 public:
  ActivationMemory(const Activations& places, void* memory)
      : places_(places), memory_(static_cast<std::byte*>(memory)) {}

  device::Tensor Input(int64_t layer) const { return {memory_ + places_.InputAt(layer), places_.dtype()}; }
  // The next block's input, or FinalInput.
  device::Tensor Output(int64_t layer) const { return Input(layer + 1); }
  // The head's input: the last block's output. In its place the gradient of the residual stream goes backward.
  device::Tensor FinalInput() const { return Input(places_.layers()); }
  device::Tensor At(int64_t layer, int row) const { return {memory_ + places_.RowAt(layer, row), places_.dtype(row)}; }
  void* KeptInputsMemory() const { return memory_ + places_.KeptAt(); }

 private:
  const Activations& places_;
  std::byte* const memory_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_ACTIVATIONS_H_
