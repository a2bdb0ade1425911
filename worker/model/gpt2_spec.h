// GPT-2's tensor table (Radford et al. 2019), and the positions of a block's tensors in their unit.
#ifndef ZEROFLEET_WORKER_MODEL_GPT2_SPEC_H_
#define ZEROFLEET_WORKER_MODEL_GPT2_SPEC_H_

#include "worker/model/spec.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

// Units: "embedding" (wte, wpe), "block.0" ... "block.<layers-1>", "head" (ln_f). The output embedding is wte (tied).
void AddGpt2Tensors(const v1::ModelConfig& config, ModelSpec& spec);

// Element offsets from the start of their unit in a part of the model, in table order; equal in all parts.
struct Gpt2EmbeddingOffsets {
  explicit Gpt2EmbeddingOffsets(const v1::ModelConfig& config, const ModelPart& part = {});
  int64_t wte, wpe, end;
};
struct Gpt2BlockOffsets {
  explicit Gpt2BlockOffsets(const v1::ModelConfig& config, const ModelPart& part = {});
  int64_t ln_1_weight, ln_1_bias, c_attn_weight, c_attn_bias, attn_proj_weight, attn_proj_bias;
  int64_t ln_2_weight, ln_2_bias, c_fc_weight, c_fc_bias, mlp_proj_weight, mlp_proj_bias, end;
};
struct Gpt2HeadOffsets {
  explicit Gpt2HeadOffsets(const v1::ModelConfig& config, const ModelPart& part = {});
  int64_t ln_f_weight, ln_f_bias, end;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_GPT2_SPEC_H_
