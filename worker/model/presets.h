// Named model sizes. A new size is one more row.
#ifndef ZEROFLEET_WORKER_MODEL_PRESETS_H_
#define ZEROFLEET_WORKER_MODEL_PRESETS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

struct ModelPreset {
  const char* name;
  const char* family;
  int64_t layers, hidden, heads, context;
  int64_t vocab;  // 0: the tokenizer's
  // Used by the Llama family; 0 and false for others.
  int64_t kv_heads = 0, intermediate = 0, head_size = 0;
  double rope_theta = 0, norm_epsilon = 0;
  bool tied = false, qkv_bias = false;
  double rope_factor = 0;  // Llama 3's scaling from 8192 positions; 0: none
  bool qk_norm = false;

  // The preset as a configuration, without what comes from the tokenizer.
  v1::ModelConfig Config() const;
};

std::span<const ModelPreset> ModelPresets();

// Null if there is no preset of that name.
const ModelPreset* FindPreset(std::string_view name);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_PRESETS_H_
