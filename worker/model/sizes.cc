// Sizes of a configuration; see sizes.h.
#include "worker/model/sizes.h"

#include <algorithm>

#include "worker/model/rotary.h"

namespace zerofleet::model {

Sizes::Sizes(const v1::ModelConfig& config)
    : layers(config.layers()),
      hidden(config.hidden()),
      intermediate(config.intermediate()),
      heads(config.heads()),
      kv_heads(config.kv_heads() > 0 ? config.kv_heads() : config.heads()),
      head_size(config.head_size() > 0 ? config.head_size() : config.hidden() / config.heads()),
      context(config.context()),
      vocab(config.vocab()),
      norm_epsilon(static_cast<float>(config.norm_epsilon())),
      tied(config.tied()),
      qkv_bias(config.qkv_bias()),
      qk_norm(config.qk_norm()),
      lora_rank(config.lora().rank()),
      lora_scale(lora_rank == 0 ? 0.0f : static_cast<float>(config.lora().alpha() / static_cast<double>(lora_rank))),
      lora_targets(config.lora().targets().begin(), config.lora().targets().end()) {
  if (config.rope_theta() > 0) frequencies = RotaryFrequencies(head_size, config.rope_theta(), config.rope_scaling());
}

bool Sizes::HasAdapter(const std::string& product) const {
  if (lora_rank == 0) return false;
  return lora_targets.empty() || std::any_of(lora_targets.begin(), lora_targets.end(), [&](const std::string& target) {
           return product == target || product.ends_with("." + target);
         });
}

int64_t Sizes::Of(Width width) const {
  switch (width) {
    case Width::kIntermediate: return intermediate;
    case Width::kQueries: return heads * head_size;
    case Width::kKeysValues: return kv_heads * head_size;
    case Width::kQueriesKeysValues: return (heads + 2 * kv_heads) * head_size;
  }
  return 0;
}

}  // namespace zerofleet::model
