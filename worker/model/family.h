// What a model family is: one row with all that differs between families, for every file that would have to ask.
#ifndef ZEROFLEET_WORKER_MODEL_FAMILY_H_
#define ZEROFLEET_WORKER_MODEL_FAMILY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "worker/model/model.h"
#include "worker/model/spec.h"
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

  const char* model_type;
  const char* architecture;
  std::span<const Size> sizes;
  std::span<const Setting> settings;
  const char* constants;       // a JSON object with what else is written
  int64_t end_of_text_vocab;   // a vocabulary of this size ends with the token that ends a text
  std::string_view prefix;     // of every tensor's name; a source may leave it out
  std::string_view embedding;  // the token embedding's name without it
  bool (*is_transposed)(std::string_view tensor_name);  // stored (in, out) there, while ours is (out, in)
  bool (*is_buffer)(std::string_view tensor_name);      // stored by some versions, and no weight
};

struct ModelFamily {
  const char* name;      // model.family
  bool tied_embedding;   // the output embedding is the token embedding; no other is stored
  bool position_table;   // positions are a table with one row for each position of the context
  bool grouped_queries;  // model.kv_heads may be less than model.heads
  int64_t (*default_intermediate)(int64_t hidden);
  void (*add_tensors)(const v1::ModelConfig& config, ModelSpec& spec);
  // Model FLOPs of training on one token, forward and backward (ModelSpec::FlopsPerToken).
  double (*flops_per_token)(const v1::ModelConfig& config, int64_t parameters);
  std::unique_ptr<Model> (*create)(const v1::ModelConfig& config, device::DType dtype, device::Device& device,
                                   int64_t sequences, int64_t time, const Checkpointing& checkpointing,
                                   const Sharing& sharing);
  HuggingFaceFormat hugging_face;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_FAMILY_H_
