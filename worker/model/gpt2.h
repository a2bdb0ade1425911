// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, tanh GELU, tied output embedding.
//
// Legend: B sequences, T positions, M = B*T, C hidden, F intermediate, H heads, V vocabulary, L layers.
// Kept from forward to backward, per block: the block's input (C), qkv (3C), attention output (C), the middle of the
// residual stream (C) and the MLP's pre-activation (F), so 6C + F elements per token, and the norms' statistics. The
// norms' and GELU's outputs are computed again in the backward, since they cost a hundredth of the matmuls.
#ifndef ZEROFLEET_WORKER_MODEL_GPT2_H_
#define ZEROFLEET_WORKER_MODEL_GPT2_H_

#include <cstdint>
#include <functional>

#include "worker/model/gpt2_spec.h"
#include "worker/model/model.h"

namespace zerofleet::model {

class Gpt2 : public Model {
 public:
  Gpt2(const v1::ModelConfig& config, device::DType dtype, device::Device& device, int64_t sequences, int64_t time);

  int64_t ActivationBytes() const override;
  int64_t ScratchBytes() const override;
  absl::Status Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                     device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) override;
  absl::Status Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                        double* loss_sum) override;
  absl::Status Logits(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                      device::Tensor logits) override;

 private:
  // What a block keeps for its backward.
  struct BlockActivations {
    device::Tensor input, qkv, attention, middle, mlp_hidden;
    float *mean_1, *rstd_1, *mean_2, *rstd_2, *logsumexp;
  };
  // Free between ops of one block: two wide (F or 3C) and two narrow (C) matrices, and the ops' own scratch.
  struct Scratch {
    device::Tensor wide_a, wide_b, narrow_a, narrow_b;
    float *head_mean, *head_rstd;
    void* attention;
    void* cross_entropy;
  };
  // Places of everything in memory, for micro-batches of this shape; also what the sizes are computed from.
  class Layout;

  int embedding_unit() const { return 0; }
  int block_unit(int64_t layer) const { return static_cast<int>(layer) + 1; }
  int head_unit() const { return static_cast<int>(config_.layers()) + 1; }

  device::AttentionShape attention_shape(int64_t sequences, int64_t time) const;
  BlockActivations Activations(int64_t layer) const;
  device::Tensor FinalInput() const;  // of the head: the last block's output
  Scratch ScratchMemory() const;

  absl::Status ForwardBlocks(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream);
  absl::Status ForwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters,
                            device::Stream& stream);
  absl::Status Head(const MicroBatch& batch, const float* gradient_scale, bool backward, ParameterSource& parameters,
                    device::Stream& stream, double* loss_sum);
  absl::Status BackwardBlock(const MicroBatch& batch, int64_t layer, ParameterSource& parameters,
                             device::Stream& stream);
  void BackwardMlp(int64_t m, const BlockActivations& kept, device::Tensor w, float* dw, device::Stream& stream);
  void BackwardAttention(const MicroBatch& batch, const BlockActivations& kept, device::Tensor w, float* dw,
                         device::Stream& stream);

  const v1::ModelConfig config_;
  const device::DType dtype_;
  device::Ops& ops_;
  const int64_t most_sequences_, most_time_;
  const Gpt2EmbeddingOffsets embedding_;
  const Gpt2BlockOffsets block_;
  const Gpt2HeadOffsets head_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_GPT2_H_
