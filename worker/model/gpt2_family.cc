// GPT-2 (Radford et al. 2019) as a row: what its configuration implies, and how transformers spells it.
#include "worker/model/gpt2_family.h"

#include "absl/strings/match.h"
#include "worker/model/gpt2.h"
#include "worker/model/gpt2_spec.h"

namespace zerofleet::model {
namespace {

using Config = v1::ModelConfig;

int64_t FourTimes(int64_t hidden) { return 4 * hidden; }

// 6 * parameters, without the position table, + 12 * layers * hidden * context: the causal half is not discounted.
double FlopsPerToken(const Config& config, int64_t parameters) {
  const int64_t position_table = config.context() * config.hidden();
  return 6.0 * static_cast<double>(parameters - position_table) +
         12.0 * static_cast<double>(config.layers() * config.hidden()) * static_cast<double>(config.context());
}

std::unique_ptr<Model> CreateGpt2(const Config& config, device::DType dtype, device::Device& device, int64_t sequences,
                                  int64_t time, const Checkpointing& checkpointing, const Sharing& sharing) {
  return std::make_unique<Gpt2>(config, dtype, device, sequences, time, checkpointing, sharing);
}

// The weights of the four projections of a block, which transformers keeps as Conv1D.
bool IsConv1D(std::string_view tensor_name) {
  const absl::string_view name(tensor_name.data(), tensor_name.size());
  return absl::EndsWith(name, ".attn.c_attn.weight") || absl::EndsWith(name, ".attn.c_proj.weight") ||
         absl::EndsWith(name, ".mlp.c_fc.weight") || absl::EndsWith(name, ".mlp.c_proj.weight");
}

// The causal mask.
bool IsMask(std::string_view tensor_name) {
  const absl::string_view name(tensor_name.data(), tensor_name.size());
  return absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias");
}

constexpr HuggingFaceFormat::Size kSizes[] = {
    {"vocab_size", &Config::vocab, &Config::set_vocab, true},
    {"n_positions", &Config::context, &Config::set_context, true},
    {"n_embd", &Config::hidden, &Config::set_hidden, true},
    {"n_layer", &Config::layers, &Config::set_layers, true},
    {"n_head", &Config::heads, &Config::set_heads, true},
    {"n_inner", &Config::intermediate, &Config::set_intermediate, false},
};

constexpr HuggingFaceFormat::Setting kSettings[] = {
    {"activation_function", R"(["gelu_new", "gelu_pytorch_tanh"])"},
    {"layer_norm_epsilon", "[1e-5]"},
    {"tie_word_embeddings", "[true]"},
    {"scale_attn_weights", "[true]"},
    {"scale_attn_by_inverse_layer_idx", "[false]"},
    {"add_cross_attention", "[false]"},
};

constexpr char kConstants[] = R"({"initializer_range": 0.02, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
                                  "torch_dtype": "float32", "use_cache": true})";

}  // namespace

constexpr ModelFamily kGpt2Family = {
    .name = "gpt2",
    .tied_embedding = true,
    .position_table = true,
    .grouped_queries = false,
    .default_intermediate = FourTimes,
    .add_tensors = AddGpt2Tensors,
    .flops_per_token = FlopsPerToken,
    .create = CreateGpt2,
    .hugging_face = {.model_type = "gpt2",
                     .architecture = "GPT2LMHeadModel",
                     .sizes = kSizes,
                     .settings = kSettings,
                     .constants = kConstants,
                     .end_of_text_vocab = 50257,
                     .prefix = "transformer.",
                     .embedding = "wte.weight",
                     .is_transposed = IsConv1D,
                     .is_buffer = IsMask},
};

}  // namespace zerofleet::model
