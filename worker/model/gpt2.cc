// GPT-2's passes, op by op; see gpt2.h.
#include "worker/model/gpt2.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/status.h"
#include "base/units.h"

namespace zerofleet {
namespace {

constexpr float kLayerNormEpsilon = 1e-5f;
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
  Tensor Matrix(int64_t elements, DType dtype) { return {Bytes(elements * DTypeBytes(dtype)), dtype}; }
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
    AttentionShape shape = model_.attention_shape(model_.most_sequences_, model_.most_time_);
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
  DType dtype() const { return model_.dtype_; }

  const Gpt2& model_;
};

Gpt2::Gpt2(const v1::ModelConfig& config, DType dtype, Device& device, int64_t sequences, int64_t time)
    : config_(config),
      dtype_(dtype),
      ops_(device.ops()),
      most_sequences_(sequences),
      most_time_(time),
      embedding_(config),
      block_(config),
      head_(config) {}

int64_t Gpt2::ActivationBytes() const {
  int64_t final_input = RoundUp(most_sequences_ * most_time_ * config_.hidden() * DTypeBytes(dtype_), kAlignment);
  return config_.layers() * Layout(*this).BlockBytes() + final_input;
}

int64_t Gpt2::ScratchBytes() const {
  Carver carver(nullptr);
  Layout(*this).Work(carver);
  return carver.used();
}

AttentionShape Gpt2::attention_shape(int64_t sequences, int64_t time) const {
  return {sequences, time, config_.heads(), config_.hidden() / config_.heads()};
}

Gpt2::BlockActivations Gpt2::Activations(int64_t layer) const {
  Layout layout(*this);
  Carver carver(static_cast<std::byte*>(memory_.activations) + layer * layout.BlockBytes());
  return layout.Block(carver);
}

Tensor Gpt2::FinalInput() const {
  return {static_cast<std::byte*>(memory_.activations) + config_.layers() * Layout(*this).BlockBytes(), dtype_};
}

Gpt2::Scratch Gpt2::ScratchMemory() const {
  Carver carver(memory_.scratch);
  return Layout(*this).Work(carver);
}

absl::Status Gpt2::Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                         Stream& stream, double* loss_sum, const std::function<void()>& on_backward) {
  ZF_RETURN_IF_ERROR(ForwardBlocks(batch, parameters, stream));
  on_backward();
  ZF_RETURN_IF_ERROR(Head(batch, gradient_scale, /*backward=*/true, parameters, stream, loss_sum));
  for (int64_t layer = config_.layers() - 1; layer >= 0; --layer) {
    ZF_RETURN_IF_ERROR(BackwardBlock(batch, layer, parameters, stream));
  }
  // The head has already added the output embedding's part to the same gradient.
  ZF_ASSIGN_OR_RETURN(float* gradient, parameters.Gradient(embedding_unit()));
  ops_.EmbeddingBackward(stream, batch.sequences, batch.time, config_.hidden(), batch.inputs, FinalInput(),
                         gradient + embedding_.wte, gradient + embedding_.wpe);
  return parameters.DeliverGradient(embedding_unit());
}

absl::Status Gpt2::Evaluate(const MicroBatch& batch, ParameterSource& parameters, Stream& stream, double* loss_sum) {
  ZF_RETURN_IF_ERROR(ForwardBlocks(batch, parameters, stream));
  return Head(batch, nullptr, /*backward=*/false, parameters, stream, loss_sum);
}

absl::Status Gpt2::Logits(const MicroBatch& batch, ParameterSource& parameters, Stream& stream, Tensor logits) {
  ZF_CHECK(batch.sequences == 1);
  ZF_RETURN_IF_ERROR(ForwardBlocks(batch, parameters, stream));
  Scratch scratch = ScratchMemory();
  ZF_ASSIGN_OR_RETURN(Tensor head, parameters.Acquire(head_unit()));
  Tensor last = FinalInput().Offset((batch.time - 1) * config_.hidden());
  ops_.LayerNormForward(stream, 1, config_.hidden(), kLayerNormEpsilon, last, head.Offset(head_.ln_f_weight),
                        head.Offset(head_.ln_f_bias), scratch.narrow_a, scratch.head_mean, scratch.head_rstd);
  ZF_ASSIGN_OR_RETURN(Tensor embedding, parameters.Acquire(embedding_unit()));
  ops_.LinearForward(stream, 1, config_.vocab(), config_.hidden(), scratch.narrow_a, embedding.Offset(embedding_.wte),
                     Tensor{}, Tensor{}, logits);
  parameters.Release(embedding_unit());
  parameters.Release(head_unit());
  return absl::OkStatus();
}

absl::Status Gpt2::ForwardBlocks(const MicroBatch& batch, ParameterSource& parameters, Stream& stream) {
  ZF_CHECK(batch.sequences <= most_sequences_ && batch.time <= most_time_);
  ZF_ASSIGN_OR_RETURN(Tensor w, parameters.Acquire(embedding_unit()));
  ops_.EmbeddingForward(stream, batch.sequences, batch.time, config_.hidden(), batch.inputs, w.Offset(embedding_.wte),
                        w.Offset(embedding_.wpe), Activations(0).input);
  parameters.Release(embedding_unit());
  for (int64_t layer = 0; layer < config_.layers(); ++layer) {
    ZF_RETURN_IF_ERROR(ForwardBlock(batch, layer, parameters, stream));
  }
  return absl::OkStatus();
}

absl::Status Gpt2::ForwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters, Stream& stream) {
  int64_t m = batch.sequences * batch.time, hidden = config_.hidden(), inner = config_.intermediate();
  BlockActivations kept = Activations(layer);
  Tensor output = layer + 1 < config_.layers() ? Activations(layer + 1).input : FinalInput();
  Scratch scratch = ScratchMemory();
  Tensor normed = scratch.narrow_a;
  ZF_ASSIGN_OR_RETURN(Tensor w, parameters.Acquire(block_unit(layer)));

  ops_.LayerNormForward(stream, m, hidden, kLayerNormEpsilon, kept.input, w.Offset(block_.ln_1_weight),
                        w.Offset(block_.ln_1_bias), normed, kept.mean_1, kept.rstd_1);
  ops_.LinearForward(stream, m, 3 * hidden, hidden, normed, w.Offset(block_.c_attn_weight),
                     w.Offset(block_.c_attn_bias), Tensor{}, kept.qkv);
  ops_.AttentionForward(stream, attention_shape(batch.sequences, batch.time), kept.qkv, kept.attention, kept.logsumexp,
                        scratch.attention);
  ops_.LinearForward(stream, m, hidden, hidden, kept.attention, w.Offset(block_.attn_proj_weight),
                     w.Offset(block_.attn_proj_bias), kept.input, kept.middle);

  ops_.LayerNormForward(stream, m, hidden, kLayerNormEpsilon, kept.middle, w.Offset(block_.ln_2_weight),
                        w.Offset(block_.ln_2_bias), normed, kept.mean_2, kept.rstd_2);
  ops_.LinearGeluForward(stream, m, inner, hidden, normed, w.Offset(block_.c_fc_weight), w.Offset(block_.c_fc_bias),
                         kept.mlp_hidden, scratch.wide_a);
  ops_.LinearForward(stream, m, hidden, inner, scratch.wide_a, w.Offset(block_.mlp_proj_weight),
                     w.Offset(block_.mlp_proj_bias), kept.middle, output);
  parameters.Release(block_unit(layer));
  return absl::OkStatus();
}

// The gradient of the residual stream lives in FinalInput's place from here to the end of the backward.
absl::Status Gpt2::Head(const MicroBatch& batch, const float* gradient_scale, bool backward,
                        ParameterSource& parameters, Stream& stream, double* loss_sum) {
  int64_t m = batch.sequences * batch.time, hidden = config_.hidden();
  Scratch scratch = ScratchMemory();
  Tensor normed = scratch.narrow_a, dnormed = backward ? scratch.narrow_b : Tensor{};
  Tensor input = FinalInput();

  ZF_ASSIGN_OR_RETURN(Tensor w, parameters.Acquire(head_unit()));
  ops_.LayerNormForward(stream, m, hidden, kLayerNormEpsilon, input, w.Offset(head_.ln_f_weight),
                        w.Offset(head_.ln_f_bias), normed, scratch.head_mean, scratch.head_rstd);
  ZF_ASSIGN_OR_RETURN(Tensor embedding, parameters.Acquire(embedding_unit()));
  float* dembedding = nullptr;
  if (backward) {
    ZF_ASSIGN_OR_RETURN(float* gradient, parameters.Gradient(embedding_unit()));
    dembedding = gradient + embedding_.wte;
  }
  ops_.CrossEntropy(stream, m, hidden, config_.vocab(), normed, embedding.Offset(embedding_.wte), batch.targets,
                    gradient_scale, loss_sum, dnormed, dembedding, scratch.cross_entropy);
  parameters.Release(embedding_unit());
  if (!backward) {
    parameters.Release(head_unit());
    return absl::OkStatus();
  }

  ZF_ASSIGN_OR_RETURN(float* dw, parameters.Gradient(head_unit()));
  Tensor dinput = scratch.wide_a;
  ops_.Zero(stream, dinput.data, m * hidden * DTypeBytes(dtype_));
  ops_.LayerNormBackward(stream, m, hidden, dnormed, input, w.Offset(head_.ln_f_weight), scratch.head_mean,
                         scratch.head_rstd, dinput, dw + head_.ln_f_weight, dw + head_.ln_f_bias);
  ops_.Convert(stream, m * hidden, dinput, input);
  parameters.Release(head_unit());
  return parameters.DeliverGradient(head_unit());
}

absl::Status Gpt2::BackwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters, Stream& stream) {
  ZF_ASSIGN_OR_RETURN(Tensor w, parameters.Acquire(block_unit(layer)));
  ZF_ASSIGN_OR_RETURN(float* dw, parameters.Gradient(block_unit(layer)));
  BlockActivations kept = Activations(layer);
  BackwardMlp(batch.sequences * batch.time, kept, w, dw, stream);
  BackwardAttention(batch, kept, w, dw, stream);
  parameters.Release(block_unit(layer));
  return parameters.DeliverGradient(block_unit(layer));
}

// dx, the gradient of the residual stream, comes in as that of the block's output and leaves as that of its middle.
void Gpt2::BackwardMlp(int64_t m, const BlockActivations& kept, Tensor w, float* dw, Stream& stream) {
  int64_t hidden = config_.hidden(), inner = config_.intermediate();
  Scratch scratch = ScratchMemory();
  Tensor dx = FinalInput(), activated = scratch.wide_a, dhidden = scratch.wide_b;
  Tensor normed = scratch.narrow_a, dnormed = scratch.narrow_b;

  ops_.GeluForward(stream, m * inner, kept.mlp_hidden, activated);
  ops_.LinearBackwardWeight(stream, m, hidden, inner, dx, activated, dw + block_.mlp_proj_weight,
                            dw + block_.mlp_proj_bias);
  ops_.LinearBackwardInputGelu(stream, m, hidden, inner, dx, w.Offset(block_.mlp_proj_weight), kept.mlp_hidden,
                               dhidden);
  ops_.LayerNormForward(stream, m, hidden, kLayerNormEpsilon, kept.middle, w.Offset(block_.ln_2_weight),
                        w.Offset(block_.ln_2_bias), normed, kept.mean_2, kept.rstd_2);
  ops_.LinearBackwardWeight(stream, m, inner, hidden, dhidden, normed, dw + block_.c_fc_weight, dw + block_.c_fc_bias);
  ops_.LinearBackwardInput(stream, m, inner, hidden, dhidden, w.Offset(block_.c_fc_weight), dnormed);
  ops_.LayerNormBackward(stream, m, hidden, dnormed, kept.middle, w.Offset(block_.ln_2_weight), kept.mean_2,
                         kept.rstd_2, dx, dw + block_.ln_2_weight, dw + block_.ln_2_bias);
}

// dx comes in as the gradient of the block's middle and leaves as that of its input.
void Gpt2::BackwardAttention(const MicroBatch& batch, const BlockActivations& kept, Tensor w, float* dw,
                             Stream& stream) {
  int64_t m = batch.sequences * batch.time, hidden = config_.hidden();
  Scratch scratch = ScratchMemory();
  Tensor dx = FinalInput(), dqkv = scratch.wide_a, dattention = scratch.narrow_b;
  Tensor normed = scratch.narrow_a, dnormed = scratch.narrow_b;

  ops_.LinearBackwardWeight(stream, m, hidden, hidden, dx, kept.attention, dw + block_.attn_proj_weight,
                            dw + block_.attn_proj_bias);
  ops_.LinearBackwardInput(stream, m, hidden, hidden, dx, w.Offset(block_.attn_proj_weight), dattention);
  ops_.AttentionBackward(stream, attention_shape(batch.sequences, batch.time), kept.qkv, kept.attention, kept.logsumexp,
                         dattention, dqkv, scratch.attention);
  ops_.LayerNormForward(stream, m, hidden, kLayerNormEpsilon, kept.input, w.Offset(block_.ln_1_weight),
                        w.Offset(block_.ln_1_bias), normed, kept.mean_1, kept.rstd_1);
  ops_.LinearBackwardWeight(stream, m, 3 * hidden, hidden, dqkv, normed, dw + block_.c_attn_weight,
                            dw + block_.c_attn_bias);
  ops_.LinearBackwardInput(stream, m, 3 * hidden, hidden, dqkv, w.Offset(block_.c_attn_weight), dnormed);
  ops_.LayerNormBackward(stream, m, hidden, dnormed, kept.input, w.Offset(block_.ln_1_weight), kept.mean_1, kept.rstd_1,
                         dx, dw + block_.ln_1_weight, dw + block_.ln_1_bias);
}

}  // namespace zerofleet
