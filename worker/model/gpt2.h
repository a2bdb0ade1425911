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
// Losses come from a softmax whose parts are gathered, 12 bytes per token and rank (worker/device/vocabulary_ops.h).
#ifndef ZEROFLEET_WORKER_MODEL_GPT2_H_
#define ZEROFLEET_WORKER_MODEL_GPT2_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "worker/device/vocabulary_ops.h"
#include "worker/model/gpt2_spec.h"
#include "worker/model/kept_inputs.h"
#include "worker/model/model.h"

namespace zerofleet::model {

class Gpt2 : public Model {
 public:
  Gpt2(const v1::ModelConfig& config, device::DType dtype, device::Device& device, int64_t sequences, int64_t time,
       const Checkpointing& checkpointing, int parts);

  void SetTensorGroup(TensorGroup* group) override;
  int64_t ActivationBytes() const override;
  int64_t HostActivationBytes() const override { return kept_inputs_.HostBytes(); }
  device::LinkTraffic link() const override { return kept_inputs_.link(); }
  double RecomputedFlopsPerToken() const override;
  int64_t ScratchBytes() const override;
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
  // Free between ops of one block: a wide (F or 3C) and a narrow (C) matrix, and the ops' own scratch.
  struct Scratch {
    device::Tensor wide, narrow;
    float *head_mean, *head_rstd;
    void* attention;
    void* cross_entropy;  // of a whole model, or what follows, of a part
    device::SoftmaxPart* softmax;
    void* logits;
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
  void FirstNorm(int64_t m, const BlockActivations& kept, device::Tensor w, device::Stream& stream);
  void SecondNorm(int64_t m, const BlockActivations& kept, device::Tensor w, device::Stream& stream);
  absl::Status Head(const MicroBatch& batch, const float* gradient_scale, bool backward, ParameterSource& parameters,
                    device::Stream& stream, double* loss_sum);
  // Fetches the segment's input and computes its blocks again up to the last, whose backward does its own part.
  absl::Status RecomputeSegment(const MicroBatch& batch, int64_t last, ParameterSource& parameters,
                                device::Stream& stream);
  absl::Status BackwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters,
                             device::Stream& stream);
  absl::Status BackwardMlp(int64_t m, int64_t layer, const BlockActivations& kept, device::Tensor w, float* dw,
                           device::Stream& stream);
  absl::Status BackwardAttention(const MicroBatch& batch, int64_t layer, const BlockActivations& kept, device::Tensor w,
                                 float* dw, device::Stream& stream);

  // Of a model in parts (gpt2_parts.cc); without effect of a whole one.
  bool in_parts() const { return part_.count > 1; }
  device::VocabularyPart vocabulary_part() const;
  // data = the sum over the parts.
  absl::Status SumOverParts(device::Tensor data, int64_t m, const std::string& unit, device::Stream& stream);
  // What is to be added once, in a sum over the parts.
  device::Tensor Once(device::Tensor tensor) const { return part_.index == 0 ? tensor : device::Tensor{}; }
  absl::Status EmbeddingForward(const device::EmbeddingForwardArguments& arguments, device::Stream& stream);
  void EmbeddingBackward(const device::EmbeddingBackwardArguments& arguments, device::Stream& stream);
  absl::Status CrossEntropy(const device::CrossEntropyArguments& arguments, device::Stream& stream);
  absl::Status PartCrossEntropy(const device::CrossEntropyArguments& arguments, device::Stream& stream);

  const v1::ModelConfig config_;
  const device::DType dtype_;
  device::Ops& ops_;
  const int64_t most_sequences_, most_time_;
  const Checkpointing checkpointing_;
  ModelPart part_;
  TensorGroup* group_ = nullptr;
  const int64_t inner_, attention_width_;  // of the part
  const Gpt2EmbeddingOffsets embedding_;
  const Gpt2BlockOffsets block_;
  const Gpt2HeadOffsets head_;
  KeptInputs kept_inputs_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_GPT2_H_
