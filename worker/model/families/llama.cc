// Llama (Touvron et al. 2023), and what is built like it: Mistral, SmolLM2, TinyLlama, with biases Qwen 2. Pre-norm
// blocks with RMS norms, rotary positions, grouped queries, SwiGLU; and how transformers spells it.
#include "worker/model/families/llama.h"

namespace zerofleet::model {
namespace {

using Config = v1::ModelConfig;

constexpr BlockRow kBlock[] = {
    Norm{NormKind::kRms, "input_layernorm"},
    Spread{{{"self_attn.q_proj", Width::kQueries},
            {"self_attn.k_proj", Width::kKeysValues},
            {"self_attn.v_proj", Width::kKeysValues}},
           Bias::kConfigured},
    Rotate{},
    Attend{},
    Project{"self_attn.o_proj", Width::kQueries, Bias::kNone},
    Norm{NormKind::kRms, "post_attention_layernorm"},
    Spread{{{"mlp.gate_proj", Width::kInner}, {"mlp.up_proj", Width::kInner}}, Bias::kNone},
    Gate{},
    Project{"mlp.down_proj", Width::kInner, Bias::kNone},
};

constexpr HuggingFaceFormat::Variant kVariants[] = {
    {"llama", "LlamaForCausalLM", false},
    {"mistral", "MistralForCausalLM", false},
    {"qwen2", "Qwen2ForCausalLM", true},
};

constexpr HuggingFaceFormat::Size kSizes[] = {
    {"vocab_size", &Config::vocab, &Config::set_vocab, true},
    {"max_position_embeddings", &Config::context, &Config::set_context, true},
    {"hidden_size", &Config::hidden, &Config::set_hidden, true},
    {"num_hidden_layers", &Config::layers, &Config::set_layers, true},
    {"num_attention_heads", &Config::heads, &Config::set_heads, true},
    {"num_key_value_heads", &Config::kv_heads, &Config::set_kv_heads, false},
    {"head_dim", &Config::head_size, &Config::set_head_size, false},
    {"intermediate_size", &Config::intermediate, &Config::set_intermediate, true},
};

constexpr HuggingFaceFormat::Setting kSettings[] = {
    {"hidden_act", R"(["silu"])"},
    {"attention_bias", "[false]"},
    {"mlp_bias", "[false]"},
};

constexpr std::string_view kBuffers[] = {".rotary_emb.inv_freq"};

constexpr char kConstants[] = R"({"initializer_range": 0.02, "attention_dropout": 0.0, "torch_dtype": "float32",
                                  "use_cache": true})";

}  // namespace

constexpr ModelFamily kLlamaFamily = {
    .name = "llama",
    .rows = {.embedding = {.tokens = "embed_tokens", .positions = nullptr},
             .block = kBlock,
             .head = {.norm = {NormKind::kRms, "norm"}, .output = "lm_head"},
             .norm_epsilon = 1e-5f},
    .inner_per_hidden = 0,
    .hugging_face = {.variants = kVariants,
                     .sizes = kSizes,
                     .settings = kSettings,
                     .constants = kConstants,
                     .end_of_text_vocab = 0,
                     .prefix = "model.",
                     .blocks = "layers.",
                     .transposes_products = false,
                     .buffers = kBuffers,
                     .llama_keys = true},
};

}  // namespace zerofleet::model
