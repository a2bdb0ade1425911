// One table, read both ways; see gguf_names.h.
#include "worker/checkpoint/gguf_names.h"

#include <span>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace zerofleet::checkpoint {
namespace {

struct TensorName {
  std::string_view theirs, ours;
};
constexpr TensorName kOutsideBlocks[] = {
    {"token_embd", "embed_tokens"}, {"output_norm", "norm"}, {"output", "lm_head"}};
constexpr TensorName kWithinBlocks[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"}, {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"},
};
constexpr std::string_view kTheirBlock = "blk.", kOurBlock = "layers.";

using Side = std::string_view TensorName::*;

std::string_view Translated(std::span<const TensorName> rows, std::string_view stem, Side from, Side to) {
  for (const TensorName& row : rows) {
    if (row.*from == stem) return row.*to;
  }
  return "";
}

std::string Translate(const std::string& name, Side from, Side to, std::string_view block, std::string_view to_block) {
  std::string_view stem = name;
  const size_t dot = stem.rfind('.');
  if (dot == stem.npos) return name;
  const std::string kind(stem.substr(dot));
  stem = stem.substr(0, dot);
  if (!stem.starts_with(block)) {
    const std::string_view other = Translated(kOutsideBlocks, stem, from, to);
    return other.empty() ? name : std::string(other) + kind;
  }
  stem.remove_prefix(block.size());
  const size_t end = stem.find('.');
  int64_t layer = 0;
  if (end == stem.npos || !absl::SimpleAtoi(std::string(stem.substr(0, end)), &layer)) return name;
  const std::string_view other = Translated(kWithinBlocks, stem.substr(end + 1), from, to);
  return other.empty() ? name : absl::StrCat(std::string(to_block), layer, ".", std::string(other), kind);
}

}  // namespace

std::string NameFromGguf(const std::string& theirs) {
  return Translate(theirs, &TensorName::theirs, &TensorName::ours, kTheirBlock, kOurBlock);
}

std::string NameForGguf(const std::string& ours) {
  return Translate(ours, &TensorName::ours, &TensorName::theirs, kOurBlock, kTheirBlock);
}

}  // namespace zerofleet::checkpoint
