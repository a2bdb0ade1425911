// Tables of what is written and what is required; see huggingface_config.h.
#include "worker/checkpoint/huggingface_config.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/json.h"
#include "proto/json_parse.h"

namespace zerofleet {
namespace {

using nlohmann::json;

// GPT-2's own vocabulary, whose last token ends a text; a vocabulary of another size has no such token.
constexpr int64_t kGpt2Vocab = 50257;

// A setting that changes the arithmetic: its value must be one of these; a key left out means the first.
struct RequiredSetting {
  const char* key;
  std::vector<json> accepted;
};

const std::vector<RequiredSetting>& RequiredSettings() {
  static const auto* const settings = new std::vector<RequiredSetting>{
      {"model_type", {"gpt2"}},         {"activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
      {"layer_norm_epsilon", {1e-5}},   {"tie_word_embeddings", {true}},
      {"scale_attn_weights", {true}},   {"scale_attn_by_inverse_layer_idx", {false}},
      {"add_cross_attention", {false}},
  };
  return *settings;
}

absl::Status CheckSettings(const json& config) {
  for (const RequiredSetting& setting : RequiredSettings()) {
    if (!config.contains(setting.key)) continue;
    const json& value = config[setting.key];
    bool accepted = false;
    for (const json& candidate : setting.accepted) accepted |= value == candidate;
    if (accepted) continue;
    return absl::InvalidArgumentError(absl::StrCat(setting.key, " is ", DumpJson(value), ", this version needs ",
                                                   DumpJson(setting.accepted.front())));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Size(const json& config, const char* key) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (config.contains(key) && config[key].is_number_unsigned()) {
    uint64_t value = config[key].get<uint64_t>();
    if (value >= 1 && value <= kMost) return static_cast<int64_t>(value);
  }
  return absl::DataLossError(absl::StrCat(key, " is missing or no positive integer"));
}

}  // namespace

std::string HuggingFaceConfigText(const v1::ModelConfig& model) {
  const nlohmann::ordered_json end_of_text =
      model.vocab() == kGpt2Vocab ? nlohmann::ordered_json(kGpt2Vocab - 1) : nlohmann::ordered_json(nullptr);
  nlohmann::ordered_json config = {
      {"architectures", nlohmann::ordered_json::array({"GPT2LMHeadModel"})},
      {"model_type", "gpt2"},
      {"vocab_size", model.vocab()},
      {"n_positions", model.context()},
      {"n_ctx", model.context()},
      {"n_embd", model.hidden()},
      {"n_layer", model.layers()},
      {"n_head", model.heads()},
      {"n_inner", model.intermediate()},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", 1e-5},
      {"tie_word_embeddings", true},
      {"scale_attn_weights", true},
      {"initializer_range", 0.02},
      {"attn_pdrop", 0.0},
      {"embd_pdrop", 0.0},
      {"resid_pdrop", 0.0},
      {"bos_token_id", end_of_text},
      {"eos_token_id", end_of_text},
      {"torch_dtype", "float32"},
      {"use_cache", true},
  };
  return DumpJson(config, 2) + "\n";
}

absl::StatusOr<v1::ModelConfig> ParseHuggingFaceConfig(std::string_view text) {
  absl::StatusOr<json> parsed = ParseJson(text);
  if (!parsed.ok()) return absl::DataLossError(std::string(parsed.status().message()));
  const json& config = *parsed;
  if (!config.is_object()) return absl::DataLossError("not a JSON object");
  ZF_RETURN_IF_ERROR(CheckSettings(config));
  v1::ModelConfig model;
  model.set_family("gpt2");
  ZF_ASSIGN_OR_RETURN(int64_t vocab, Size(config, "vocab_size"));
  ZF_ASSIGN_OR_RETURN(int64_t context, Size(config, "n_positions"));
  ZF_ASSIGN_OR_RETURN(int64_t hidden, Size(config, "n_embd"));
  ZF_ASSIGN_OR_RETURN(int64_t layers, Size(config, "n_layer"));
  ZF_ASSIGN_OR_RETURN(int64_t heads, Size(config, "n_head"));
  int64_t intermediate = 4 * hidden;  // what a null or missing n_inner means
  if (config.contains("n_inner") && !config["n_inner"].is_null()) {
    ZF_ASSIGN_OR_RETURN(intermediate, Size(config, "n_inner"));
  }
  model.set_vocab(vocab);
  model.set_context(context);
  model.set_hidden(hidden);
  model.set_layers(layers);
  model.set_heads(heads);
  model.set_kv_heads(heads);
  model.set_intermediate(intermediate);
  return model;
}

bool IsConv1D(std::string_view tensor_name) {
  const std::string name(tensor_name);
  return absl::EndsWith(name, ".attn.c_attn.weight") || absl::EndsWith(name, ".attn.c_proj.weight") ||
         absl::EndsWith(name, ".mlp.c_fc.weight") || absl::EndsWith(name, ".mlp.c_proj.weight");
}

}  // namespace zerofleet
