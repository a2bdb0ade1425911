// Where GPT-2's activations and scratch are in the memory it is given; see gpt2.h.
#include <algorithm>
#include <cstddef>

#include "base/units.h"
#include "worker/model/gpt2.h"

namespace zerofleet::model {
namespace {

constexpr int64_t kAlignment = 64;

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

// The one description of where things are: carving a null buffer gives the sizes.
class Gpt2::Layout {
 public:
  explicit Layout(const Gpt2& model) : model_(model) {}

  BlockActivations Block(Carver& carver) const {
    BlockActivations kept;
    kept.input = carver.Matrix(tokens() * hidden(), dtype());
    kept.qkv = carver.Matrix(tokens() * 3 * hidden(), dtype());
    kept.attention = carver.Matrix(tokens() * hidden(), dtype());
    kept.middle = carver.Matrix(tokens() * hidden(), dtype());
    kept.mlp_hidden = carver.Matrix(tokens() * inner(), dtype());
    kept.mean_1 = carver.Floats(tokens());
    kept.rstd_1 = carver.Floats(tokens());
    kept.mean_2 = carver.Floats(tokens());
    kept.rstd_2 = carver.Floats(tokens());
    kept.logsumexp = carver.Floats(tokens() * model_.config_.heads());
    return kept;
  }

  Gpt2::Scratch Work(Carver& carver) const {
    int64_t wide = std::max(3 * hidden(), inner());
    Gpt2::Scratch scratch;
    scratch.wide_a = carver.Matrix(tokens() * wide, dtype());
    scratch.wide_b = carver.Matrix(tokens() * wide, dtype());
    scratch.narrow_a = carver.Matrix(tokens() * hidden(), dtype());
    scratch.narrow_b = carver.Matrix(tokens() * hidden(), dtype());
    device::AttentionShape shape = model_.attention_shape(model_.most_sequences_, model_.most_time_);
    scratch.head_mean = carver.Floats(tokens());
    scratch.head_rstd = carver.Floats(tokens());
    scratch.attention = carver.Bytes(model_.ops_.AttentionScratchBytes(shape));
    scratch.cross_entropy =
        carver.Bytes(model_.ops_.CrossEntropyScratchBytes(tokens(), hidden(), model_.config_.vocab(), dtype()));
    return scratch;
  }

  int64_t BlockBytes() const {
    Carver carver(nullptr);
    Block(carver);
    return carver.used();
  }

 private:
  int64_t tokens() const { return model_.most_sequences_ * model_.most_time_; }
  int64_t hidden() const { return model_.config_.hidden(); }
  int64_t inner() const { return model_.config_.intermediate(); }
  device::DType dtype() const { return model_.dtype_; }

  const Gpt2& model_;
};

int64_t Gpt2::ActivationBytes() const {
  int64_t final_input =
      RoundUp(most_sequences_ * most_time_ * config_.hidden() * device::DTypeBytes(dtype_), kAlignment);
  return config_.layers() * Layout(*this).BlockBytes() + final_input;
}

int64_t Gpt2::ScratchBytes() const {
  Carver carver(nullptr);
  Layout(*this).Work(carver);
  return carver.used();
}

device::AttentionShape Gpt2::attention_shape(int64_t sequences, int64_t time) const {
  return {sequences, time, config_.heads(), config_.hidden() / config_.heads()};
}

Gpt2::BlockActivations Gpt2::Activations(int64_t layer) const {
  Layout layout(*this);
  Carver carver(static_cast<std::byte*>(memory_.activations) + layer * layout.BlockBytes());
  return layout.Block(carver);
}

device::Tensor Gpt2::FinalInput() const {
  return {static_cast<std::byte*>(memory_.activations) + config_.layers() * Layout(*this).BlockBytes(), dtype_};
}

Gpt2::Scratch Gpt2::ScratchMemory() const {
  Carver carver(memory_.scratch);
  return Layout(*this).Work(carver);
}

}  // namespace zerofleet::model
