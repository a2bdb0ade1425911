// GPT-2's passes, op by op; see gpt2.h.
#include "worker/model/gpt2.h"

#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace zerofleet::model {
namespace {

constexpr float kLayerNormEpsilon = 1e-5f;

constexpr char kHeadName[] = "head";
std::string BlockName(int64_t layer) { return absl::StrCat("block.", layer); }

}  // namespace

Gpt2::Gpt2(const v1::ModelConfig& config, device::DType dtype, device::Device& device, int64_t sequences, int64_t time,
           const Checkpointing& checkpointing, const Sharing& sharing)
    : config_(config),
      dtype_(dtype),
      ops_(device.ops()),
      most_sequences_(sequences),
      most_time_(time),
      checkpointing_(checkpointing),
      part_{.index = 0, .count = sharing.parts},
      sequence_(sharing.sequence && sharing.parts > 1),
      inner_(config.intermediate() / sharing.parts),
      attention_width_(config.hidden() / sharing.parts),
      embedding_(config, part_),
      block_(config, part_),
      head_(config, part_),
      kept_inputs_(checkpointing, segments(), StreamTokens(sequences * time) * config.hidden(), dtype,
                   sequence_ ? 1 : sharing.parts, device) {}

absl::Status Gpt2::Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                         device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) {
  const absl::Cleanup joined = [&] { kept_inputs_.Join(stream); };
  ZF_RETURN_IF_ERROR(ForwardBlocks(batch, /*keep=*/true, parameters, stream));
  on_backward();
  device::Tensor held;
  ZF_RETURN_IF_ERROR(Head(batch, gradient_scale, /*backward=*/true, parameters, stream, loss_sum, &held));
  for (int64_t layer = config_.layers() - 1; layer >= 0; --layer) {
    if (EndsRecomputed(layer)) ZF_RETURN_IF_ERROR(RecomputeSegment(batch, layer, parameters, stream));
    ZF_RETURN_IF_ERROR(BackwardBlock(batch, layer, parameters, stream));
  }
  if (held) return EmbeddingInBands(batch, gradient_scale, held, parameters, stream);
  // The head has already added the output embedding's part to the same gradient.
  ZF_ASSIGN_OR_RETURN(float* gradient, parameters.Gradient(embedding_unit()));
  ZF_RETURN_IF_ERROR(EmbeddingBackward({.batch = batch.sequences,
                                        .time = batch.time,
                                        .c = config_.hidden(),
                                        .tokens = batch.inputs,
                                        .dx = FinalInput(),
                                        .dwte = gradient + embedding_.wte,
                                        .dwpe = gradient + embedding_.wpe},
                                       stream));
  return parameters.DeliverGradient(embedding_unit());
}

absl::Status Gpt2::Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                            double* loss_sum) {
  ZF_RETURN_IF_ERROR(ForwardBlocks(batch, /*keep=*/false, parameters, stream));
  return Head(batch, nullptr, /*backward=*/false, parameters, stream, loss_sum, nullptr);
}

absl::Status Gpt2::Logits(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                          device::Tensor logits) {
  ZF_CHECK(batch.sequences == 1);
  ZF_CHECK(!in_parts());
  ZF_RETURN_IF_ERROR(ForwardBlocks(batch, /*keep=*/false, parameters, stream));
  Scratch scratch = ScratchMemory();
  ZF_ASSIGN_OR_RETURN(device::Tensor head, parameters.Acquire(head_unit()));
  device::Tensor last = FinalInput().Offset((batch.time - 1) * config_.hidden());
  ops_.LayerNormForward(stream, {.m = 1,
                                 .c = config_.hidden(),
                                 .epsilon = kLayerNormEpsilon,
                                 .x = last,
                                 .gamma = head.Offset(head_.ln_f_weight),
                                 .beta = head.Offset(head_.ln_f_bias),
                                 .y = scratch.narrow,
                                 .mean = scratch.head_mean,
                                 .rstd = scratch.head_rstd});
  ZF_ASSIGN_OR_RETURN(device::Tensor embedding, parameters.Acquire(embedding_unit()));
  ops_.LinearForward(stream, {.m = 1,
                              .n = config_.vocab(),
                              .k = config_.hidden(),
                              .x = scratch.narrow,
                              .w = embedding.Offset(embedding_.wte),
                              .y = logits});
  parameters.Release(embedding_unit());
  parameters.Release(head_unit());
  return absl::OkStatus();
}

absl::Status Gpt2::ForwardBlocks(const MicroBatch& batch, bool keep, ParameterSource& parameters,
                                 device::Stream& stream) {
  ZF_CHECK(batch.sequences <= most_sequences_ && batch.time <= most_time_);
  ZF_ASSIGN_OR_RETURN(device::Tensor w, parameters.Acquire(embedding_unit()));
  ZF_RETURN_IF_ERROR(EmbeddingForward({.batch = batch.sequences,
                                       .time = batch.time,
                                       .c = config_.hidden(),
                                       .tokens = batch.inputs,
                                       .wte = w.Offset(embedding_.wte),
                                       .wpe = w.Offset(embedding_.wpe),
                                       .x = Activations(0).input},
                                      stream));
  parameters.Release(embedding_unit());
  for (int64_t layer = 0; layer < config_.layers(); ++layer) {
    if (keep && layer % segment() == 0) kept_inputs_.Keep(KeptPass(batch, stream), layer / segment());
    ZF_RETURN_IF_ERROR(ForwardBlock(batch, layer, parameters, stream));
  }
  return absl::OkStatus();
}

absl::Status Gpt2::ForwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters,
                                device::Stream& stream) {
  BlockActivations kept = Activations(layer);
  ZF_ASSIGN_OR_RETURN(device::Tensor w, parameters.Acquire(block_unit(layer)));
  ZF_RETURN_IF_ERROR(ForwardWithin(batch, layer, kept, w, stream));
  ZF_RETURN_IF_ERROR(ForwardOutput(batch.sequences * batch.time, layer, kept, w, Output(layer), stream));
  parameters.Release(block_unit(layer));
  return absl::OkStatus();
}

absl::Status Gpt2::ForwardWithin(const MicroBatch& batch, int64_t layer, const BlockActivations& kept, device::Tensor w,
                                 device::Stream& stream) {
  int64_t m = batch.sequences * batch.time, hidden = config_.hidden();
  ZF_RETURN_IF_ERROR(ForwardNorm(m, layer, FirstNorm(kept), w, stream));
  ops_.LinearForward(stream, {.m = m,
                              .n = 3 * attention_width_,
                              .k = hidden,
                              .x = kept.normed_1,
                              .w = w.Offset(block_.c_attn_weight),
                              .bias = w.Offset(block_.c_attn_bias),
                              .y = kept.qkv});
  ops_.AttentionForward(stream, {.shape = attention_shape(batch.sequences, batch.time),
                                 .qkv = kept.qkv,
                                 .out = kept.attention,
                                 .logsumexp = kept.logsumexp,
                                 .scratch = ScratchMemory().attention});
  ZF_RETURN_IF_ERROR(Project({.m = m,
                              .n = hidden,
                              .k = attention_width_,
                              .x = kept.attention,
                              .w = w.Offset(block_.attn_proj_weight),
                              .bias = w.Offset(block_.attn_proj_bias),
                              .residual = kept.input,
                              .y = kept.middle},
                             BlockName(layer), stream));
  ZF_RETURN_IF_ERROR(ForwardNorm(m, layer, SecondNorm(kept), w, stream));
  ops_.LinearGeluForward(stream, {.m = m,
                                  .n = inner_,
                                  .k = hidden,
                                  .x = kept.normed_2,
                                  .w = w.Offset(block_.c_fc_weight),
                                  .bias = w.Offset(block_.c_fc_bias),
                                  .before = kept.mlp_hidden,
                                  .y = kept.activated});
  return absl::OkStatus();
}

absl::Status Gpt2::ForwardOutput(int64_t m, int64_t layer, const BlockActivations& kept, device::Tensor w,
                                 device::Tensor output, device::Stream& stream) {
  return Project({.m = m,
                  .n = config_.hidden(),
                  .k = inner_,
                  .x = kept.activated,
                  .w = w.Offset(block_.mlp_proj_weight),
                  .bias = w.Offset(block_.mlp_proj_bias),
                  .residual = kept.middle,
                  .y = output},
                 BlockName(layer), stream);
}

Gpt2::BlockNorm Gpt2::FirstNorm(const BlockActivations& kept) const {
  return {kept.input, kept.normed_1, kept.mean_1, kept.rstd_1, block_.ln_1_weight, block_.ln_1_bias, /*place=*/0};
}

Gpt2::BlockNorm Gpt2::SecondNorm(const BlockActivations& kept) const {
  return {kept.middle, kept.normed_2, kept.mean_2, kept.rstd_2, block_.ln_2_weight, block_.ln_2_bias, /*place=*/1};
}

absl::Status Gpt2::ForwardNorm(int64_t m, int64_t layer, const BlockNorm& norm, device::Tensor w,
                               device::Stream& stream) {
  return Norm({.m = m,
               .c = config_.hidden(),
               .epsilon = kLayerNormEpsilon,
               .x = norm.input,
               .gamma = w.Offset(norm.weight),
               .beta = w.Offset(norm.bias),
               .y = norm.normed,
               .mean = norm.mean,
               .rstd = norm.rstd},
              BlockName(layer), stream);
}

absl::Status Gpt2::BackwardNorm(int64_t m, int64_t layer, const BlockNorm& norm, device::Tensor w,
                                device::Tensor dnormed, const UnitGradient& dw, device::Stream& stream) {
  return NormBackward(dw, norm.weight,
                      {.m = m,
                       .c = config_.hidden(),
                       .dy = dnormed,
                       .x = norm.input,
                       .gamma = w.Offset(norm.weight),
                       .mean = norm.mean,
                       .rstd = norm.rstd,
                       .dx = FinalInput()},
                      norm.place, BlockName(layer), stream);
}

// The gradient of the residual stream lives in FinalInput's place from here to the end of the backward.
absl::Status Gpt2::Head(const MicroBatch& batch, const float* gradient_scale, bool backward,
                        ParameterSource& parameters, device::Stream& stream, double* loss_sum, device::Tensor* held) {
  int64_t m = batch.sequences * batch.time, hidden = config_.hidden();
  Scratch scratch = ScratchMemory();
  const bool in_bands = backward && parameters.TakesBands();
  device::Tensor normed = in_bands ? scratch.head_input : scratch.wide,
                 dnormed = backward ? scratch.narrow : device::Tensor{};
  device::Tensor input = FinalInput();

  ZF_ASSIGN_OR_RETURN(device::Tensor w, parameters.Acquire(head_unit()));
  ZF_RETURN_IF_ERROR(Norm({.m = m,
                           .c = hidden,
                           .epsilon = kLayerNormEpsilon,
                           .x = input,
                           .gamma = w.Offset(head_.ln_f_weight),
                           .beta = w.Offset(head_.ln_f_bias),
                           .y = normed,
                           .mean = scratch.head_mean,
                           .rstd = scratch.head_rstd},
                          kHeadName, stream));
  ZF_ASSIGN_OR_RETURN(device::Tensor embedding, parameters.Acquire(embedding_unit()));
  float* dembedding = nullptr;
  if (backward && !in_bands) {
    ZF_ASSIGN_OR_RETURN(float* gradient, parameters.Gradient(embedding_unit()));
    dembedding = gradient + embedding_.wte;
  }
  ZF_RETURN_IF_ERROR(CrossEntropy({.m = m,
                                   .c = hidden,
                                   .vocab = config_.vocab(),
                                   .x = normed,
                                   .w = embedding.Offset(embedding_.wte),
                                   .targets = batch.targets,
                                   .gradient_scale = gradient_scale,
                                   .loss_sum = loss_sum,
                                   .dx = dnormed,
                                   .dw = dembedding,
                                   .scratch = scratch.cross_entropy,
                                   .kept = in_bands ? scratch.logits_gradient : nullptr},
                                  stream));
  if (in_bands) *held = embedding;
  if (!in_bands) parameters.Release(embedding_unit());
  if (!backward) {
    parameters.Release(head_unit());
    return absl::OkStatus();
  }

  ZF_ASSIGN_OR_RETURN(const UnitGradient dw, BeginGradient(head_unit(), parameters));
  device::Tensor dinput = scratch.wide;  // the norm's output is used no more
  const int64_t elements = StreamTokens(m) * hidden;
  ops_.Zero(stream, dinput.data, elements * device::DTypeBytes(dtype_));
  ZF_RETURN_IF_ERROR(NormBackward(dw, head_.ln_f_weight,
                                  {.m = m,
                                   .c = hidden,
                                   .dy = dnormed,
                                   .x = input,
                                   .gamma = w.Offset(head_.ln_f_weight),
                                   .mean = scratch.head_mean,
                                   .rstd = scratch.head_rstd,
                                   .dx = dinput},
                                  /*place=*/0, kHeadName, stream));
  ZF_RETURN_IF_ERROR(SumNormGradients(dw, {head_.ln_f_weight}, kHeadName, stream));
  ops_.Convert(stream, elements, dinput, input);
  parameters.Release(head_unit());
  return EndGradient(dw);
}

absl::Status Gpt2::RecomputeSegment(const MicroBatch& batch, int64_t last, ParameterSource& parameters,
                                    device::Stream& stream) {
  const int64_t first = last + 1 - segment();
  ZF_RETURN_IF_ERROR(kept_inputs_.Fetch(KeptPass(batch, stream), first / segment(), BlockName(first)));
  for (int64_t layer = first; layer < last; ++layer) {
    ZF_RETURN_IF_ERROR(ForwardBlock(batch, layer, parameters, stream));
  }
  return absl::OkStatus();
}

absl::Status Gpt2::BackwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters,
                                 device::Stream& stream) {
  ZF_ASSIGN_OR_RETURN(device::Tensor w, parameters.Acquire(block_unit(layer)));
  ZF_ASSIGN_OR_RETURN(const UnitGradient dw, BeginGradient(block_unit(layer), parameters));
  BlockActivations kept = Activations(layer);
  if (EndsRecomputed(layer)) ZF_RETURN_IF_ERROR(ForwardWithin(batch, layer, kept, w, stream));
  ZF_RETURN_IF_ERROR(BackwardMlp(batch.sequences * batch.time, layer, kept, w, dw, stream));
  ZF_RETURN_IF_ERROR(BackwardAttention(batch, layer, kept, w, dw, stream));
  ZF_RETURN_IF_ERROR(SumNormGradients(dw, {block_.ln_1_weight, block_.ln_2_weight}, BlockName(layer), stream));
  parameters.Release(block_unit(layer));
  return EndGradient(dw);
}

// dx, the gradient of the residual stream, comes in as that of the block's output and leaves as that of its middle.
absl::Status Gpt2::BackwardMlp(int64_t m, int64_t layer, const BlockActivations& kept, device::Tensor w,
                               const UnitGradient& dw, device::Stream& stream) {
  int64_t hidden = config_.hidden(), inner = inner_;
  Scratch scratch = ScratchMemory();
  device::Tensor dhidden = scratch.wide, dnormed = scratch.narrow;

  ZF_ASSIGN_OR_RETURN(const device::Tensor dx, WholeGradient(m, BlockName(layer), stream));
  if (checkpointing_.selective) {
    ZF_RETURN_IF_ERROR(ForwardNorm(m, layer, SecondNorm(kept), w, stream));
    ops_.GeluForward(stream, m * inner, kept.mlp_hidden, kept.activated);
  }
  ZF_RETURN_IF_ERROR(BackwardWeight(dw, block_.mlp_proj_weight, block_.mlp_proj_bias,
                                    {.m = m, .n = hidden, .k = inner, .dy = dx, .x = kept.activated}, stream));
  ops_.LinearBackwardInputGelu(stream, {.m = m,
                                        .n = hidden,
                                        .k = inner,
                                        .dy = dx,
                                        .w = w.Offset(block_.mlp_proj_weight),
                                        .before = kept.mlp_hidden,
                                        .dbefore = dhidden});
  ZF_RETURN_IF_ERROR(BackwardWeight(dw, block_.c_fc_weight, block_.c_fc_bias,
                                    {.m = m, .n = inner, .k = hidden, .dy = dhidden, .x = kept.normed_2}, stream));
  ops_.LinearBackwardInput(
      stream, {.m = m, .n = inner, .k = hidden, .dy = dhidden, .w = w.Offset(block_.c_fc_weight), .dx = dnormed});
  return BackwardNorm(m, layer, SecondNorm(kept), w, dnormed, dw, stream);
}

// dx comes in as the gradient of the block's middle and leaves as that of its input.
absl::Status Gpt2::BackwardAttention(const MicroBatch& batch, int64_t layer, const BlockActivations& kept,
                                     device::Tensor w, const UnitGradient& dw, device::Stream& stream) {
  int64_t m = batch.sequences * batch.time, hidden = config_.hidden(), width = attention_width_;
  Scratch scratch = ScratchMemory();
  device::Tensor dqkv = scratch.wide, dnormed = scratch.narrow;
  device::Tensor dattention = sequence_ ? scratch.wide.Offset(m * 3 * width) : scratch.narrow;

  ZF_ASSIGN_OR_RETURN(const device::Tensor dx, WholeGradient(m, BlockName(layer), stream));
  if (checkpointing_.selective) ZF_RETURN_IF_ERROR(ForwardNorm(m, layer, FirstNorm(kept), w, stream));
  ZF_RETURN_IF_ERROR(BackwardWeight(dw, block_.attn_proj_weight, block_.attn_proj_bias,
                                    {.m = m, .n = hidden, .k = width, .dy = dx, .x = kept.attention}, stream));
  ops_.LinearBackwardInput(
      stream, {.m = m, .n = hidden, .k = width, .dy = dx, .w = w.Offset(block_.attn_proj_weight), .dx = dattention});
  ops_.AttentionBackward(stream, {.shape = attention_shape(batch.sequences, batch.time),
                                  .qkv = kept.qkv,
                                  .out = kept.attention,
                                  .logsumexp = kept.logsumexp,
                                  .dout = dattention,
                                  .dqkv = dqkv,
                                  .scratch = scratch.attention});
  ZF_RETURN_IF_ERROR(BackwardWeight(dw, block_.c_attn_weight, block_.c_attn_bias,
                                    {.m = m, .n = 3 * width, .k = hidden, .dy = dqkv, .x = kept.normed_1}, stream));
  ops_.LinearBackwardInput(
      stream, {.m = m, .n = 3 * width, .k = hidden, .dy = dqkv, .w = w.Offset(block_.c_attn_weight), .dx = dnormed});
  return BackwardNorm(m, layer, FirstNorm(kept), w, dnormed, dw, stream);
}

}  // namespace zerofleet::model
