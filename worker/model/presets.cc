// The table of named sizes: GPT-2's four (Radford et al. 2019, table 2); small ones for one machine; those that ZeRO
// trains or plans for (Rajbhandari et al. 2020, §9 and §10), with heads of 128 or as published; the smallest of
// ZeRO-Offload's (Ren et al. 2021, table 2); and the Llama family's, from their publishers' config.json.
#include "worker/model/presets.h"

namespace zerofleet::model {
namespace {

constexpr ModelPreset kPresets[] = {
    // name, family, layers, hidden, heads, context, vocab
    {"gpt2-tiny", "gpt2", 2, 64, 4, 64, 0},
    {"gpt2-mini", "gpt2", 4, 192, 6, 128, 0},
    {"gpt2-char", "gpt2", 6, 384, 6, 256, 0},
    {"gpt2-124m", "gpt2", 12, 768, 12, 1024, 50257},
    {"gpt2-355m", "gpt2", 24, 1024, 16, 1024, 50257},
    {"gpt2-774m", "gpt2", 36, 1280, 20, 1024, 50257},
    {"gpt2-1558m", "gpt2", 48, 1600, 25, 1024, 50257},
    {"zero-offload-1b", "gpt2", 20, 2048, 16, 1024, 50257},
    {"zero-8b", "gpt2", 72, 3072, 24, 1024, 50257},
    {"zero-13b", "gpt2", 62, 4096, 32, 1024, 50257},
    {"zero-40b", "gpt2", 88, 6144, 48, 1024, 50257},
    {"zero-60b", "gpt2", 132, 6144, 48, 1024, 50257},
    {"zero-100b", "gpt2", 125, 8192, 64, 1024, 50257},
    {"zero-170b", "gpt2", 212, 8192, 64, 1024, 50257},
    {"zero-1t", "gpt2", 128, 25600, 160, 1024, 50257},
    {"turing-nlg-17b", "gpt2", 78, 4256, 28, 1024, 50257},
    // name, family, layers, hidden, heads, context, vocab, kv_heads, intermediate, head_size, rope_theta, norm_epsilon,
    // tied, qkv_bias, rope_factor, qk_norm
    {"llama2-7b", "llama", 32, 4096, 32, 4096, 32000, 32, 11008, 128, 1e4, 1e-5},
    {"llama2-13b", "llama", 40, 5120, 40, 4096, 32000, 40, 13824, 128, 1e4, 1e-5},
    {"llama2-70b", "llama", 80, 8192, 64, 4096, 32000, 8, 28672, 128, 1e4, 1e-5},
    {"llama3-8b", "llama", 32, 4096, 32, 8192, 128256, 8, 14336, 128, 5e5, 1e-5},
    {"llama3-70b", "llama", 80, 8192, 64, 8192, 128256, 8, 28672, 128, 5e5, 1e-5},
    {"llama3.2-1b", "llama", 16, 2048, 32, 131072, 128256, 8, 8192, 64, 5e5, 1e-5, true, false, 32},
    {"llama3.2-3b", "llama", 28, 3072, 24, 131072, 128256, 8, 8192, 128, 5e5, 1e-5, true, false, 32},
    {"mistral-7b", "llama", 32, 4096, 32, 32768, 32000, 8, 14336, 128, 1e4, 1e-5},
    {"tinyllama-1.1b", "llama", 22, 2048, 32, 2048, 32000, 4, 5632, 64, 1e4, 1e-5},
    {"smollm2-135m", "llama", 30, 576, 9, 8192, 49152, 3, 1536, 64, 1e5, 1e-5, true},
    {"smollm2-360m", "llama", 32, 960, 15, 8192, 49152, 5, 2560, 64, 1e5, 1e-5, true},
    {"smollm2-1.7b", "llama", 24, 2048, 32, 8192, 49152, 32, 8192, 64, 1.3e5, 1e-5, true},
    {"qwen2-0.5b", "llama", 24, 896, 14, 131072, 151936, 2, 4864, 64, 1e6, 1e-6, true, true},
    {"qwen2.5-7b", "llama", 28, 3584, 28, 131072, 152064, 4, 18944, 128, 1e6, 1e-6, false, true},
    {"qwen3-0.6b", "llama", 28, 1024, 16, 40960, 151936, 8, 3072, 128, 1e6, 1e-6, true, false, 0, true},
    {"qwen3-8b", "llama", 36, 4096, 32, 40960, 151936, 8, 12288, 128, 1e6, 1e-6, false, false, 0, true},
};

}  // namespace

v1::ModelConfig ModelPreset::Config() const {
  v1::ModelConfig config;
  config.set_family(family);
  config.set_layers(layers);
  config.set_hidden(hidden);
  config.set_heads(heads);
  config.set_kv_heads(kv_heads > 0 ? kv_heads : heads);
  config.set_intermediate(intermediate > 0 ? intermediate : 4 * hidden);
  config.set_context(context);
  config.set_vocab(vocab);
  config.set_head_size(head_size);
  config.set_rope_theta(rope_theta);
  config.set_norm_epsilon(norm_epsilon);
  config.set_tied(tied);
  config.set_qkv_bias(qkv_bias);
  config.set_qk_norm(qk_norm);
  if (rope_theta > 0) config.mutable_rope_scaling()->set_type("none");
  if (rope_factor > 0) {
    v1::RopeScalingConfig& scaling = *config.mutable_rope_scaling();
    scaling.set_type("llama3");
    scaling.set_factor(rope_factor);
    scaling.set_low_freq_factor(1);
    scaling.set_high_freq_factor(4);
    scaling.set_original_max_position_embeddings(8192);
  }
  return config;
}

std::span<const ModelPreset> ModelPresets() { return kPresets; }

const ModelPreset* FindPreset(std::string_view name) {
  for (const ModelPreset& preset : kPresets) {
    if (name == preset.name) return &preset;
  }
  return nullptr;
}

}  // namespace zerofleet::model
