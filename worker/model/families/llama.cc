// Llama (Touvron et al. 2023), and models built like it: Mistral, SmolLM2 and TinyLlama; with biases Qwen 2; with norms
// of queries and keys Qwen 3. Pre-norm blocks with RMS norms, rotary positions, grouped queries, SwiGLU; and how
// transformers spells it.
#include "worker/model/families/llama.h"

namespace zerofleet::model {
namespace {

constexpr BlockRow kLlamaBlock[] = {
    Norm{NormKind::kRms, "input_layernorm"},
    Spread{{{"self_attn.q_proj", Width::kQueries},
            {"self_attn.k_proj", Width::kKeysValues},
            {"self_attn.v_proj", Width::kKeysValues}},
           Bias::kConfigured},
    Rotate{"self_attn.q_norm", "self_attn.k_norm"},
    Attend{},
    Project{"self_attn.o_proj", Width::kQueries, Bias::kNone},
    Norm{NormKind::kRms, "post_attention_layernorm"},
    Spread{{{"mlp.gate_proj", Width::kIntermediate}, {"mlp.up_proj", Width::kIntermediate}}, Bias::kNone},
    Gate{},
    Project{"mlp.down_proj", Width::kIntermediate, Bias::kNone},
};

constexpr HuggingFaceFormat::Variant kLlamaVariants[] = {
    {"llama", "LlamaForCausalLM", false, false},
    {"mistral", "MistralForCausalLM", false, false},
    {"qwen2", "Qwen2ForCausalLM", true, false},
    {"qwen3", "Qwen3ForCausalLM", false, true},
};

constexpr HuggingFaceFormat::Size kLlamaSizes[] = {
    {"vocab_size", &v1::ModelConfig::vocab, &v1::ModelConfig::set_vocab, true},
    {"max_position_embeddings", &v1::ModelConfig::context, &v1::ModelConfig::set_context, true},
    {"hidden_size", &v1::ModelConfig::hidden, &v1::ModelConfig::set_hidden, true},
    {"num_hidden_layers", &v1::ModelConfig::layers, &v1::ModelConfig::set_layers, true},
    {"num_attention_heads", &v1::ModelConfig::heads, &v1::ModelConfig::set_heads, true},
    {"num_key_value_heads", &v1::ModelConfig::kv_heads, &v1::ModelConfig::set_kv_heads, false},
    {"head_dim", &v1::ModelConfig::head_size, &v1::ModelConfig::set_head_size, false},
    {"intermediate_size", &v1::ModelConfig::intermediate, &v1::ModelConfig::set_intermediate, true},
};

constexpr HuggingFaceFormat::Setting kLlamaSettings[] = {
    {"hidden_act", R"(["silu"])"},
    {"attention_bias", "[false]"},
    {"mlp_bias", "[false]"},
};

constexpr std::string_view kLlamaBuffers[] = {".rotary_emb.inv_freq"};

constexpr char kLlamaConstants[] = R"({"initializer_range": 0.02, "attention_dropout": 0.0, "use_cache": true})";

}  // namespace

constexpr ModelFamily kLlamaFamily = {
    .name = "llama",
    .rows = {.embedding = {.tokens = "embed_tokens", .positions = nullptr},
             .block = kLlamaBlock,
             .head = {.norm = {NormKind::kRms, "norm"}, .output = "lm_head"},
             .norm_epsilon = 1e-5f},
    .inner_per_hidden = 0,
    .hugging_face = {.variants = kLlamaVariants,
                     .sizes = kLlamaSizes,
                     .settings = kLlamaSettings,
                     .constants = kLlamaConstants,
                     .end_of_text_vocab = 0,
                     .prefix = "model.",
                     .blocks = "layers.",
                     .transposes_products = false,
                     .buffers = kLlamaBuffers,
                     .llama_keys = true},
};

}  // namespace zerofleet::model
