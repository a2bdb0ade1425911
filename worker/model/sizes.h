// The sizes of a model, and of the matrices that its rows name by them; and what else its configuration says to its
// layers.
#ifndef ZEROFLEET_WORKER_MODEL_SIZES_H_
#define ZEROFLEET_WORKER_MODEL_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

// What a product of a block puts out, or takes from within the block.
enum class Width : uint8_t {
  kIntermediate,       // the MLP's
  kQueries,            // heads times the size of a head
  kKeysValues,         // of keys, or of values: kv_heads times that
  kQueriesKeysValues,  // the three side by side in one matrix
};

// The sizes of the whole model.
struct Sizes {
  explicit Sizes(const v1::ModelConfig& config);

  int64_t layers, hidden, intermediate, heads, kv_heads, head_size, context, vocab;
  float norm_epsilon;  // 0: the family's
  bool tied, qkv_bias, qk_norm;
  std::vector<float> frequencies;  // of rotary positions, in angles per position; empty without

  // Low-rank adapters; a rank of 0: there are none.
  int64_t lora_rank;
  float lora_scale;
  std::vector<std::string> lora_targets;

  int64_t Of(Width width) const;
  // Whether the product of this name has an adapter: as PEFT matches target_modules, or without any, all have.
  bool HasAdapter(const std::string& product) const;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_SIZES_H_
