// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, tanh GELU, tied output embedding.
//
// Legend: B sequences, T positions, M = B*T, C hidden, F intermediate, H heads, V vocabulary, L layers.
// A block makes 8C + 2F elements per token (16C with F = 4C) and, in fp32, its norms' statistics and H of attention's:
// its input (C), the norms' outputs (2C), qkv (3C), attention's output (C), the middle of the residual stream (C), the
// MLP's pre-activation (F) and GELU's output (F). Checkpointing says which of them every block keeps; the others have
// one place that the blocks of a segment, or all blocks, take in turn, and are computed again in the backward
// (gpt2_memory.cc; docs/decisions/0003-activations-kept.md).
//
// Shared by N ranks of a tensor group (Shoeybi et al. 2019), each has H/N heads, F/N of the MLP's width and V/N of the
// vocabulary; the residual stream and what the norms make is on all of them, with the same bits. The forward sums over
// the group what each projection into the residual stream gives, and the embedding; the backward sums the gradients
// that leave the other layers of a block, and the logits: of a block two sums of M*C elements forward and two backward.
//
// With sequence parallelism (Korthikanti et al. 2022 §4.2.2) each rank has M/N tokens of the residual stream, the ones
// in its place among a micro-batch's, and normalises them. A sum over the group is scattered: each rank gets its
// tokens of it. What a norm makes is gathered before the products that take it, and so is the gradient of the residual
// stream before those that it reaches. That is what the all-reduces send, in two halves; the gradients of the norms'
// own parameters are summed besides. Of a block, qkv, attention's output, the MLP's two and the norms' outputs hold all
// tokens, so that a selective policy, which keeps neither of the latter, keeps 1/N of everything.
//
// Losses come from a softmax whose parts are gathered, 12 bytes per token and rank (worker/device/vocabulary_ops.h).
//
// Gradients of parameters are added to a unit's sums, or made in bands of rows, one after another (gpt2_bands.cc). The
// token embedding's is then made last, for a slice of the vocabulary at a time: what the head gives, for which the
// logits are computed again, and what the lookup does.
#ifndef ZEROFLEET_WORKER_MODEL_GPT2_H_
#define ZEROFLEET_WORKER_MODEL_GPT2_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/vocabulary_ops.h"
#include "worker/model/gpt2_spec.h"
#include "worker/model/kept_inputs.h"
#include "worker/model/model.h"

namespace zerofleet::model {

class Gpt2 : public Model {
 public:
  Gpt2(const v1::ModelConfig& config, device::DType dtype, device::Device& device, int64_t sequences, int64_t time,
       const Checkpointing& checkpointing, const Sharing& sharing);

  void SetTensorGroup(TensorGroup* group) override;
  int64_t ActivationBytes() const override;
  int64_t HostActivationBytes() const override { return kept_inputs_.HostBytes(); }
  device::LinkTraffic link() const override { return kept_inputs_.link(); }
  double RecomputedFlopsPerToken() const override;
  int64_t ScratchBytes() const override;
  std::vector<memory::Piece> ActivationPieces() const override;
  std::vector<memory::Piece> ScratchPieces() const override;
  int64_t BandBytes() const override;
  absl::Status Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                     device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) override;
  absl::Status Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                        double* loss_sum) override;
  absl::Status Logits(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                      device::Tensor logits) override;

 private:
  // What a block's forward leaves to its backward.
  struct BlockActivations {
    device::Tensor input, normed_1, qkv, attention, middle, normed_2, mlp_hidden, activated;
    float *mean_1, *rstd_1, *mean_2, *rstd_2, *logsumexp;
  };
  // One of a block's two norms: its weight's and its bias's place in the unit, and its own among scratch's gradients.
  struct BlockNorm {
    device::Tensor input, normed;
    float *mean, *rstd;
    int64_t weight, bias;
    int place;
  };
  // Free between ops of one block: a wide (F or 3C) and a narrow (C) matrix, and the ops' own scratch.
  struct Scratch {
    device::Tensor wide, narrow;
    float *head_mean, *head_rstd;
    void* attention;
    float* norm_gradients;  // of a block's two norms, where their tokens are divided
    void* cross_entropy;    // of a whole model, or what follows, of a part
    device::SoftmaxPart* softmax;
    void* logits;
    // Of a backward in bands: a linear layer's bias, and what is kept of the head to its end.
    float* bias_gradient;
    device::Tensor head_input;
    device::LogitsGradient* logits_gradient;
  };
  // Where a unit's gradient goes: to its sums or, if `whole` is null, away in bands.
  struct UnitGradient {
    int unit;
    float* whole;
    ParameterSource& parameters;
  };
  // Places of everything in memory, for micro-batches of this shape; also what the sizes are computed from.
  class Layout;

  int embedding_unit() const { return 0; }
  int64_t segment() const { return std::min(checkpointing_.segment, config_.layers()); }
  int64_t segments() const { return (config_.layers() + segment() - 1) / segment(); }
  // Whether the block is the last of a segment that the backward computes again: of any but the last.
  bool EndsRecomputed(int64_t layer) const { return (layer + 1) % segment() == 0 && layer + 1 < config_.layers(); }
  int block_unit(int64_t layer) const { return static_cast<int>(layer) + 1; }
  int head_unit() const { return static_cast<int>(config_.layers()) + 1; }

  device::AttentionShape attention_shape(int64_t sequences, int64_t time) const;
  BlockActivations Activations(int64_t layer) const;
  device::Tensor Output(int64_t layer) const;  // the next block's input, or the head's
  device::Tensor FinalInput() const;           // of the head: the last block's output
  Scratch ScratchMemory() const;

  KeptInputs::Pass KeptPass(const MicroBatch& batch, device::Stream& stream) const;

  // `keep`: what a backward needs, too.
  absl::Status ForwardBlocks(const MicroBatch& batch, bool keep, ParameterSource& parameters, device::Stream& stream);
  absl::Status ForwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters,
                            device::Stream& stream);
  // Everything of the block but its output.
  absl::Status ForwardWithin(const MicroBatch& batch, int64_t layer, const BlockActivations& kept, device::Tensor w,
                             device::Stream& stream);
  absl::Status ForwardOutput(int64_t m, int64_t layer, const BlockActivations& kept, device::Tensor w,
                             device::Tensor output, device::Stream& stream);
  BlockNorm FirstNorm(const BlockActivations& kept) const;
  BlockNorm SecondNorm(const BlockActivations& kept) const;
  absl::Status ForwardNorm(int64_t m, int64_t layer, const BlockNorm& norm, device::Tensor w, device::Stream& stream);
  // Into the residual stream's gradient, from that of the norm's output.
  absl::Status BackwardNorm(int64_t m, int64_t layer, const BlockNorm& norm, device::Tensor w, device::Tensor dnormed,
                            const UnitGradient& dw, device::Stream& stream);
  // `held`: the embedding, which is not released where its gradient will be made in bands.
  absl::Status Head(const MicroBatch& batch, const float* gradient_scale, bool backward, ParameterSource& parameters,
                    device::Stream& stream, double* loss_sum, device::Tensor* held);
  // Fetches the segment's input and computes its blocks again up to the last, whose backward does its own part.
  absl::Status RecomputeSegment(const MicroBatch& batch, int64_t last, ParameterSource& parameters,
                                device::Stream& stream);
  absl::Status BackwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters,
                             device::Stream& stream);
  absl::Status BackwardMlp(int64_t m, int64_t layer, const BlockActivations& kept, device::Tensor w,
                           const UnitGradient& dw, device::Stream& stream);
  absl::Status BackwardAttention(const MicroBatch& batch, int64_t layer, const BlockActivations& kept, device::Tensor w,
                                 const UnitGradient& dw, device::Stream& stream);

  // Gradients of parameters (gpt2_bands.cc). The two numbers are the weight's and the bias's place in the unit; dw and
  // dbias of the product are filled in.
  absl::StatusOr<UnitGradient> BeginGradient(int unit, ParameterSource& parameters) const;
  static absl::Status EndGradient(const UnitGradient& dw);
  absl::Status BackwardWeight(const UnitGradient& dw, int64_t weight, int64_t bias,
                              device::LinearBackwardWeightArguments product, device::Stream& stream);
  // `elements` floats to add to, at `begin` in the unit: of a band, which DeliverBand takes then.
  float* SumsAt(const UnitGradient& dw, int64_t begin, int64_t elements, device::Stream& stream) const;
  static absl::Status DeliverBand(const UnitGradient& dw, int64_t begin, int64_t elements, const float* sums);
  // All of the embedding's gradient, in bands, when the backward is at its end.
  absl::Status EmbeddingInBands(const MicroBatch& batch, const float* gradient_scale, device::Tensor embedding,
                                ParameterSource& parameters, device::Stream& stream);
  absl::Status PositionsInBands(const device::EmbeddingBackwardArguments& lookup, ParameterSource& parameters,
                                device::Stream& stream);
  // `elements` floats of zeros, to make a band in.
  float* ZeroBand(int64_t elements, device::Stream& stream) const;
  // Of a gradient of so many rows of `columns`, how many to make at a time.
  int64_t RowsAtATime(int64_t rows, int64_t columns) const;

  // Of a model in parts (gpt2_parts.cc); without effect of a whole one.
  bool in_parts() const { return part_.count > 1; }
  // Of `m` tokens, how many this rank has of the residual stream.
  int64_t StreamTokens(int64_t m) const { return sequence_ ? m / part_.count : m; }
  // Those tokens' rows in a matrix of all of them.
  device::Tensor StreamRows(device::Tensor all, int64_t m) const;
  device::VocabularyPart vocabulary_part() const;
  // sum = the sum over the parts of `all`, of the tokens that this rank has of the residual stream. Without sequence
  // parallelism that is all of them, and `sum` is `all`.
  absl::Status SumOverParts(device::Tensor all, device::Tensor sum, int64_t m, const std::string& unit,
                            device::Stream& stream);
  // Every rank's StreamRows of `all`, from them.
  absl::Status GatherTokens(device::Tensor all, int64_t m, const std::string& unit, device::Stream& stream);
  // A product over the parts into the residual stream, of which `residual` and `y` are.
  absl::Status Project(device::LinearForwardArguments product, const std::string& unit, device::Stream& stream);
  // y = all tokens' norm, of `x` in the residual stream; m counts all tokens.
  absl::Status Norm(device::LayerNormForwardArguments norm, const std::string& unit, device::Stream& stream);
  // Through a norm into the residual stream, of which `x` and `dx` are, from the parts' shares of `dy`, of all tokens,
  // which it spoils; m counts them. dgamma, which it fills in, is at `weight` in the unit, and dbeta behind it. Where
  // the tokens are divided, they wait in the `place`-th of scratch's norms for SumNormGradients.
  absl::Status NormBackward(const UnitGradient& dw, int64_t weight, device::LayerNormBackwardArguments norm, int place,
                            const std::string& unit, device::Stream& stream);
  // Adds them up over the group, where they are not whole already, and to the gradient: the norms' places in the unit.
  absl::Status SumNormGradients(const UnitGradient& dw, std::initializer_list<int64_t> norms, const std::string& unit,
                                device::Stream& stream);
  // The residual stream's gradient of all tokens. In scratch.narrow where they are divided.
  absl::StatusOr<device::Tensor> WholeGradient(int64_t m, const std::string& unit, device::Stream& stream);
  // What is to be added once, in a sum over the parts.
  device::Tensor Once(device::Tensor tensor) const { return part_.index == 0 ? tensor : device::Tensor{}; }
  absl::Status EmbeddingForward(const device::EmbeddingForwardArguments& arguments, device::Stream& stream);
  // dx is the residual stream's.
  absl::Status EmbeddingBackward(device::EmbeddingBackwardArguments arguments, device::Stream& stream);
  absl::Status CrossEntropy(const device::CrossEntropyArguments& arguments, device::Stream& stream);
  absl::Status PartCrossEntropy(const device::CrossEntropyArguments& arguments, device::Stream& stream);

  const v1::ModelConfig config_;
  const device::DType dtype_;
  device::Ops& ops_;
  const int64_t most_sequences_, most_time_;
  const Checkpointing checkpointing_;
  ModelPart part_;
  const bool sequence_;  // of a model in parts
  TensorGroup* group_ = nullptr;
  const int64_t inner_, attention_width_;  // of the part
  const Gpt2EmbeddingOffsets embedding_;
  const Gpt2BlockOffsets block_;
  const Gpt2HeadOffsets head_;
  KeptInputs kept_inputs_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_GPT2_H_
