// The sizes of a model, the widths by which its rows name matrices, and the other settings that its layers need.
#ifndef ZEROFLEET_WORKER_MODEL_SIZES_H_
#define ZEROFLEET_WORKER_MODEL_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

// The width of a block's product: of its output, or of its input from within the block.
enum class Width : uint8_t {
  kIntermediate,       // the MLP's
  kQueries,            // heads times the size of a head
  kKeysValues,         // keys or values: kv_heads times the size of a head
  kQueriesKeysValues,  // queries, keys and values side by side in one matrix
};

// The sizes of the whole model.
struct Sizes {
  explicit Sizes(const v1::ModelConfig& config);

  int64_t layers, hidden, intermediate, heads, kv_heads, head_size, context, vocab;
  float norm_epsilon;  // 0: the family's
  bool tied, qkv_bias, qk_norm;
  std::vector<float> frequencies;  // rotary positions' angles per position, in radians; empty without them

  // Low-rank adapters; with a rank of 0 there are none.
  int64_t lora_rank;
  float lora_scale;
  std::vector<std::string> lora_targets;

  int64_t Of(Width width) const;
  // Whether the product of this name has an adapter: matched as PEFT matches target_modules; with no targets, all have.
  bool HasAdapter(const std::string& product) const;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_SIZES_H_
