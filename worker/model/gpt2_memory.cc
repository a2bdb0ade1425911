// Where GPT-2's activations and scratch are in the memory it is given; see gpt2.h.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/units.h"
#include "worker/model/gpt2.h"

namespace zerofleet::model {
namespace {

constexpr int64_t kAlignment = KeptInputs::kAlignment;

// Hands out consecutive aligned pieces of a buffer; with a null base it only measures.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}
  void* Bytes(int64_t bytes) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += RoundUp(bytes, kAlignment);
    return at;
  }
  device::Tensor Matrix(int64_t elements, device::DType dtype) {
    return {Bytes(elements * device::DTypeBytes(dtype)), dtype};
  }
  float* Floats(int64_t elements) { return static_cast<float*>(Bytes(elements * 4)); }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

}  // namespace

// The one description of where things are: carving a null buffer gives the sizes. Activations are, one after another:
// the last block's output; what is not kept for each block (selective); the segments' inputs (kept_inputs.h); the other
// inputs of a segment's blocks; what each block of a segment makes. Where segments take the last two in turn, they come
// before the inputs: the end of this memory is what the backward is through with first.
class Gpt2::Layout {
 public:
  explicit Layout(const Gpt2& model) : model_(model) {}

  // What every block of a segment has a place for; in selective checkpointing, of what it makes from its input, a part.
  void Block(Carver& carver, BlockActivations& kept) const {
    kept.qkv = carver.Matrix(tokens() * 3 * width(), dtype());
    kept.attention = carver.Matrix(tokens() * width(), dtype());
    kept.logsumexp = carver.Floats(tokens() * model_.config_.heads() / model_.part_.count);
    kept.middle = carver.Matrix(stream_tokens() * hidden(), dtype());
    kept.mlp_hidden = carver.Matrix(tokens() * inner(), dtype());
    if (selective()) return;
    Norm(carver, kept.normed_1, kept.mean_1, kept.rstd_1);
    Norm(carver, kept.normed_2, kept.mean_2, kept.rstd_2);
    kept.activated = carver.Matrix(tokens() * inner(), dtype());
  }

  // What all blocks take in turn. The two norms' outputs are computed again one after the other.
  void Shared(Carver& carver, BlockActivations& kept) const {
    if (!selective()) return;
    Norm(carver, kept.normed_1, kept.mean_1, kept.rstd_1);
    kept.normed_2 = kept.normed_1;
    kept.mean_2 = kept.mean_1;
    kept.rstd_2 = kept.rstd_1;
    kept.activated = carver.Matrix(tokens() * inner(), dtype());
  }

  Gpt2::Scratch Work(Carver& carver) const {
    Gpt2::Scratch scratch;
    // dqkv and, where `narrow` holds the residual stream's gradient meanwhile, dattention behind it.
    const int64_t widths = model_.sequence_ ? 4 : 3;
    scratch.wide = carver.Matrix(tokens() * std::max({widths * width(), inner(), hidden()}), dtype());
    scratch.narrow = carver.Matrix(tokens() * hidden(), dtype());
    device::AttentionShape shape = model_.attention_shape(model_.most_sequences_, model_.most_time_);
    scratch.head_mean = carver.Floats(stream_tokens());
    scratch.head_rstd = carver.Floats(stream_tokens());
    scratch.attention = carver.Bytes(model_.ops_.AttentionScratchBytes(shape));
    scratch.norm_gradients = carver.Floats(model_.sequence_ ? 2 * 2 * hidden() : 0);
    CrossEntropy(carver, scratch);
    if (model_.checkpointing_.band_bytes == 0) return scratch;
    scratch.bias_gradient = carver.Floats(std::max({3 * width(), inner(), hidden()}));
    scratch.head_input = carver.Matrix(tokens() * hidden(), dtype());
    scratch.logits_gradient = static_cast<device::LogitsGradient*>(
        carver.Bytes(tokens() * static_cast<int64_t>(sizeof(device::LogitsGradient))));
    return scratch;
  }

  void CrossEntropy(Carver& carver, Gpt2::Scratch& scratch) const {
    const int64_t vocab = model_.config_.vocab();
    if (!model_.in_parts()) {
      scratch.cross_entropy = carver.Bytes(model_.ops_.CrossEntropyScratchBytes(tokens(), hidden(), vocab, dtype()));
      return;
    }
    const int64_t rows_of_part = RowsOfPart(vocab, model_.part_).all,
                  rows = device::PartLogitsRows(tokens(), rows_of_part);
    scratch.softmax = static_cast<device::SoftmaxPart*>(
        carver.Bytes(model_.part_.count * rows * static_cast<int64_t>(sizeof(device::SoftmaxPart))));
    scratch.logits = carver.Bytes(model_.ops_.vocabulary().PartLogitsScratchBytes(rows, rows_of_part, dtype()));
  }

  int64_t InputBytes() const { return RoundUp(stream_tokens() * hidden() * device::DTypeBytes(dtype()), kAlignment); }
  int64_t BlockBytes() const {
    BlockActivations unused;
    return Measure([&](Carver& carver) { Block(carver, unused); });
  }
  int64_t SharedBytes() const {
    BlockActivations unused;
    return Measure([&](Carver& carver) { Shared(carver, unused); });
  }

  int64_t Bytes() const { return InputBytes() + SharedBytes() + SegmentBytes() + model_.kept_inputs_.DeviceBytes(); }
  int64_t OutputAt() const { return 0; }
  int64_t SharedAt() const { return InputBytes(); }
  int64_t KeptAt() const { return SharedAt() + SharedBytes() + (one_segment() ? 0 : SegmentBytes()); }
  int64_t InputAt(int64_t layer) const {
    const int64_t index = layer % segment();
    if (index == 0) return KeptAt() + model_.kept_inputs_.WholeAt(layer / segment());
    return SegmentAt() + (index - 1) * InputBytes();
  }
  int64_t BlockAt(int64_t layer) const {
    return SegmentAt() + (segment() - 1) * InputBytes() + layer % segment() * BlockBytes();
  }

  std::vector<memory::Piece> Pieces() const {
    // Until the backward of this block, or of the embedding.
    const auto until = [&](int64_t bytes, int64_t layer) {
      const int unit = layer < 0 ? model_.embedding_unit() : model_.block_unit(layer);
      return memory::Piece{bytes, kForwardPhase, BackwardPhase(unit, model_.head_unit() + 1)};
    };
    std::vector<memory::Piece> pieces = {until(InputBytes(), -1), until(SharedBytes(), 0)};
    if (!one_segment()) pieces.push_back(until(SegmentBytes(), 0));
    for (const KeptInputs::PlaceOnDevice& place : model_.kept_inputs_.Places()) {
      pieces.push_back(until(place.bytes, std::max<int64_t>(place.segment, 0) * segment()));
    }
    if (!one_segment()) return pieces;
    for (int64_t layer = 1; layer < segment(); ++layer) pieces.push_back(until(InputBytes(), layer));
    for (int64_t layer = 0; layer < segment(); ++layer) pieces.push_back(until(BlockBytes(), layer));
    return pieces;
  }

 private:
  bool one_segment() const { return model_.segments() == 1; }
  // Of one segment: its blocks' inputs but the first, and what they make.
  int64_t SegmentBytes() const { return (segment() - 1) * InputBytes() + segment() * BlockBytes(); }
  int64_t SegmentAt() const {
    return one_segment() ? KeptAt() + model_.kept_inputs_.DeviceBytes() : SharedAt() + SharedBytes();
  }
  template <typename Carve>
  static int64_t Measure(const Carve& carve) {
    Carver carver(nullptr);
    carve(carver);
    return carver.used();
  }
  void Norm(Carver& carver, device::Tensor& normed, float*& mean, float*& rstd) const {
    normed = carver.Matrix(tokens() * hidden(), dtype());
    mean = carver.Floats(stream_tokens());
    rstd = carver.Floats(stream_tokens());
  }

  bool selective() const { return model_.checkpointing_.selective; }
  int64_t segment() const { return model_.segment(); }
  int64_t tokens() const { return model_.most_sequences_ * model_.most_time_; }
  int64_t stream_tokens() const { return model_.StreamTokens(tokens()); }
  int64_t hidden() const { return model_.config_.hidden(); }
  int64_t inner() const { return model_.inner_; }
  int64_t width() const { return model_.attention_width_; }
  device::DType dtype() const { return model_.dtype_; }

  const Gpt2& model_;
};

int64_t Gpt2::ActivationBytes() const { return Layout(*this).Bytes(); }

std::vector<memory::Piece> Gpt2::ActivationPieces() const { return Layout(*this).Pieces(); }

int64_t Gpt2::ScratchBytes() const {
  Carver carver(nullptr);
  Layout(*this).Work(carver);
  return carver.used();
}

// The logits are the last, and in use in the head alone unless bands of the embedding's gradient make them again.
std::vector<memory::Piece> Gpt2::ScratchPieces() const {
  if (checkpointing_.band_bytes > 0) return {{ScratchBytes()}};
  Carver logits(nullptr);
  Scratch unused;
  Layout(*this).CrossEntropy(logits, unused);
  const int head = BackwardPhase(head_unit(), head_unit() + 1);
  return {{ScratchBytes() - logits.used()}, {logits.used(), head, head}};
}

// Products alone, as model FLOPs are counted: norms and GELU, all that selective computes again, are left out. A
// segment's last block is computed again but for its last product, whose result nobody needs. So are the logits where
// gradients leave in bands.
double Gpt2::RecomputedFlopsPerToken() const {
  const auto hidden = static_cast<double>(config_.hidden()), inner = static_cast<double>(config_.intermediate());
  const double attention = 4 * static_cast<double>(config_.context()) * hidden;
  const double output = 2 * hidden * inner, block = 8 * hidden * hidden + 2 * output + attention;
  const int64_t segments = (config_.layers() - 1) / segment();  // but the last
  const double logits = checkpointing_.band_bytes > 0 ? 2 * hidden * static_cast<double>(config_.vocab()) : 0;
  return static_cast<double>(segments) * (static_cast<double>(segment()) * block - output) + logits;
}

device::AttentionShape Gpt2::attention_shape(int64_t sequences, int64_t time) const {
  return {sequences, time, config_.heads() / part_.count, config_.hidden() / config_.heads()};
}

Gpt2::BlockActivations Gpt2::Activations(int64_t layer) const {
  const Layout layout(*this);
  std::byte* const memory = static_cast<std::byte*>(memory_.activations);
  BlockActivations kept;
  kept.input = {memory + layout.InputAt(layer), dtype_};
  Carver block(memory + layout.BlockAt(layer)), shared(memory + layout.SharedAt());
  layout.Block(block, kept);
  layout.Shared(shared, kept);
  return kept;
}

device::Tensor Gpt2::Output(int64_t layer) const {
  return layer + 1 < config_.layers() ? Activations(layer + 1).input : FinalInput();
}

device::Tensor Gpt2::FinalInput() const {
  return {static_cast<std::byte*>(memory_.activations) + Layout(*this).OutputAt(), dtype_};
}

KeptInputs::Pass Gpt2::KeptPass(const MicroBatch& batch, device::Stream& stream) const {
  const int64_t elements = StreamTokens(batch.sequences * batch.time) * config_.hidden();
  return {static_cast<std::byte*>(memory_.activations) + Layout(*this).KeptAt(), memory_.host_activations, elements,
          group_, stream};
}

Gpt2::Scratch Gpt2::ScratchMemory() const {
  Carver carver(memory_.scratch);
  return Layout(*this).Work(carver);
}

}  // namespace zerofleet::model
