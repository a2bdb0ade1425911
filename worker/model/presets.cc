// The table of named sizes: GPT-2's four (Radford et al. 2019, table 2), small ones for one machine, and those that
// ZeRO trains or plans for (Rajbhandari et al. 2020, §9 and §10), with heads of 128 or as published; and the smallest
// of ZeRO-Offload's (Ren et al. 2021, table 2).
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
};

}  // namespace

std::span<const ModelPreset> ModelPresets() { return kPresets; }

const ModelPreset* FindPreset(std::string_view name) {
  for (const ModelPreset& preset : kPresets) {
    if (name == preset.name) return &preset;
  }
  return nullptr;
}

}  // namespace zerofleet::model
