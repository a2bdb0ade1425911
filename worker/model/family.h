// A model family as one row, which has everything that differs between families, so that no other file asks which
// family a model is.
#ifndef ZEROFLEET_WORKER_MODEL_FAMILY_H_
#define ZEROFLEET_WORKER_MODEL_FAMILY_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <variant>

#include "worker/model/rows.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

// How Hugging Face's transformers spells a model of the family, in config.json and in model.safetensors.
struct HuggingFaceFormat {
  struct Size {
    const char* key;
    int64_t (v1::ModelConfig::*get)() const;
    void (v1::ModelConfig::*set)(int64_t);
    bool required;  // otherwise a key that is missing or null means the family's default
  };
  // A setting that changes the arithmetic. `accepted` is a JSON array of values; its first value is written, and is
  // what a missing key means.
  struct Setting {
    const char* key;
    const char* accepted;
  };

  // A name that the family goes by in config.json, with the settings of the configuration that it stands for.
  struct Variant {
    const char *model_type, *architecture;
    bool qkv_bias, qk_norm;
  };

  std::span<const Variant> variants;  // an export writes the first one that has the model's biases and norms
  std::span<const Size> sizes;
  std::span<const Setting> settings;
  const char* constants;      // a JSON object with everything else that is written
  int64_t end_of_text_vocab;  // a vocabulary of this size ends with the token that ends a text
  std::string_view prefix;    // every tensor's name begins with it; a source may leave it out
  std::string_view blocks;    // follows the prefix in names of blocks' tensors, before the layer's number
  bool transposes_products;   // Hugging Face stores weights of blocks' products as (in, out), this program as (out, in)
  std::span<const std::string_view> buffers;  // endings of names that some versions store and that are not weights
  bool llama_keys;  // config.json has keys for rotary positions, an epsilon, tied heads (huggingface_llama.h)

  bool IsBuffer(std::string_view tensor_name) const {
    return std::any_of(buffers.begin(), buffers.end(),
                       [&](std::string_view end) { return tensor_name.ends_with(end); });
  }
};

struct ModelFamily {
  const char* name;  // model.family
  FamilyRows rows;
  int64_t inner_per_hidden;  // default of model.intermediate / model.hidden; 0: it must be given
  HuggingFaceFormat hugging_face;

  // Whether the family has rotary positions; only such a family takes the Llama family's own configuration keys.
  bool rotary() const {
    return std::any_of(rows.block.begin(), rows.block.end(),
                       [](const BlockRow& row) { return std::holds_alternative<Rotate>(row); });
  }
  // Whether positions are a table with one row for each position of the context.
  bool position_table() const { return rows.embedding.positions != nullptr; }
  // Whether model.kv_heads may be less than model.heads: keys and values have matrices of their own.
  bool grouped_queries() const {
    return std::any_of(rows.block.begin(), rows.block.end(), [](const BlockRow& row) {
      const Spread* const spread = std::get_if<Spread>(&row);
      return spread != nullptr &&
             std::any_of(std::begin(spread->products), std::end(spread->products), [](const Spread::Product& one) {
               return one.name != nullptr && one.width == Width::kKeysValues;
             });
    });
  }
  int64_t default_intermediate(int64_t hidden) const { return inner_per_hidden * hidden; }
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_FAMILY_H_
