// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, tanh GELU, tied output embedding; and how
// transformers spells it.
#include "worker/model/families/gpt2.h"

namespace zerofleet::model {
namespace {

using Config = v1::ModelConfig;

constexpr BlockRow kBlock[] = {
    Norm{NormKind::kLayer, "ln_1"},
    Spread{{{"attn.c_attn", Width::kQueriesKeysValues}}, Bias::kBias},
    Attend{},
    Project{"attn.c_proj", Width::kQueries, Bias::kBias},
    Norm{NormKind::kLayer, "ln_2"},
    Spread{{{"mlp.c_fc", Width::kIntermediate}}, Bias::kBias},
    Activate{ActivationKind::kGelu},
    Project{"mlp.c_proj", Width::kIntermediate, Bias::kBias},
};

constexpr HuggingFaceFormat::Variant kVariants[] = {{"gpt2", "GPT2LMHeadModel", false, false}};

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

constexpr std::string_view kCausalMasks[] = {".attn.bias", ".attn.masked_bias"};

constexpr char kConstants[] = R"({"initializer_range": 0.02, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
                                  "use_cache": true})";

}  // namespace

constexpr ModelFamily kGpt2Family = {
    .name = "gpt2",
    .rows = {.embedding = {.tokens = "wte", .positions = "wpe"},
             .block = kBlock,
             .head = {.norm = {NormKind::kLayer, "ln_f"}, .output = nullptr},
             .norm_epsilon = 1e-5f},
    .inner_per_hidden = 4,
    .hugging_face = {.variants = kVariants,
                     .sizes = kSizes,
                     .settings = kSettings,
                     .constants = kConstants,
                     .end_of_text_vocab = 50257,
                     .prefix = "transformer.",
                     .blocks = "h.",
                     .transposes_products = true,  // transformers stores them as Conv1D
                     .buffers = kCausalMasks,
                     .llama_keys = false},
};

}  // namespace zerofleet::model
