// Named model sizes. A new size is one more row.
#ifndef ZEROFLEET_WORKER_MODEL_PRESETS_H_
#define ZEROFLEET_WORKER_MODEL_PRESETS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace zerofleet::model {

struct ModelPreset {
  const char* name;
  const char* family;
  int64_t layers, hidden, heads, context;
  int64_t vocab;  // 0: what the tokenizer says
};

std::span<const ModelPreset> ModelPresets();

// Null if there is none of that name.
const ModelPreset* FindPreset(std::string_view name);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_PRESETS_H_
