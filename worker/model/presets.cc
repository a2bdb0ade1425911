// The table of named sizes: GPT-2's four (Radford et al. 2019, table 2) and small ones for one machine.
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
