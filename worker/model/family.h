// What a model family is: one row with all that differs between families, for every file that would have to ask.
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
  // A setting that changes the arithmetic. `accepted` is a JSON array; its first value is the one that is written, and
  // that a missing key means.
  struct Setting {
    const char* key;
    const char* accepted;
  };

  // A name that the family has there, with what of the configuration it stands for.
  struct Variant {
    const char *model_type, *architecture;
    bool qkv_bias, qk_norm;
  };

  std::span<const Variant> variants;  // written: the first that has the model's biases and norms
  std::span<const Size> sizes;
  std::span<const Setting> settings;
  const char* constants;      // a JSON object with what else is written
  int64_t end_of_text_vocab;  // a vocabulary of this size ends with the token that ends a text
  std::string_view prefix;    // of every tensor's name; a source may leave it out
  std::string_view blocks;    // what follows it in those of blocks, before the layer's number
  bool transposes_products;   // the weights of blocks' products are stored (in, out) there, while ours are (out, in)
  std::span<const std::string_view> buffers;  // ends of names that some versions store, and that are no weights
  bool llama_keys;  // config.json has rotary positions, an epsilon, tied or untied heads (huggingface_llama.h)

  bool IsBuffer(std::string_view tensor_name) const {
    return std::any_of(buffers.begin(), buffers.end(),
                       [&](std::string_view end) { return tensor_name.ends_with(end); });
  }
};

struct ModelFamily {
  const char* name;  // model.family
  FamilyRows rows;
  int64_t inner_per_hidden;  // model.intermediate, unless it is given; 0: it must be
  HuggingFaceFormat hugging_face;

  // The keys of the configuration that only it has are the Llama family's.
  bool rotary() const {
    return std::any_of(rows.block.begin(), rows.block.end(),
                       [](const BlockRow& row) { return std::holds_alternative<Rotate>(row); });
  }
  // Positions are a table with one row for each position of the context.
  bool position_table() const { return rows.embedding.positions != nullptr; }
  // model.kv_heads may be less than model.heads: keys and values have matrices of their own, and attention takes it.
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
