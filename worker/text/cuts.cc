// The steps of common tokenizers; see cuts.h.
//
// In each of the expressions below, a newline at such a place is a piece of its own, or ends one: behind a visible
// character it is the whole run of white space, so that neither `\s+(?!\S)` nor `\s*[\r\n]+` can end anywhere but at
// the end of a text, and a letter never joins a newline.
#include "worker/text/cuts.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace zerofleet::text {
namespace {

// What a step does at the place of a cut.
enum class AtCut { kUnknown, kNothing, kDivides };

// Expressions that match neither a newline nor a letter.
constexpr std::string_view kElsewhere[] = {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+"};

// The expressions by which GPT-2, Llama 3 (cl100k), Qwen, gpt-oss (o200k) and DeepSeek V3 split. Files write a newline
// as it is or as an escape.
constexpr std::string_view kDividing[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

bool Contains(std::span<const std::string_view> list, std::string_view one) {
  return std::ranges::find(list, one) != list.end();
}

std::string TypeOf(const nlohmann::json& step) {
  return step.is_object() && step.contains("type") && step["type"].is_string() ? step["type"].get<std::string>() : "";
}

bool Is(const nlohmann::json& step, const char* key, bool value, bool absent) {
  return step.contains(key) ? step[key] == value : absent == value;
}

AtCut OfSplit(const nlohmann::json& step) {
  const bool plain = Is(step, "invert", false, false) && step.contains("behavior") && step["behavior"] == "Isolated" &&
                     step.contains("pattern") && step["pattern"].is_object() && step["pattern"].contains("Regex") &&
                     step["pattern"]["Regex"].is_string();
  if (!plain) return AtCut::kUnknown;
  const std::string& expression = step["pattern"]["Regex"].get_ref<const std::string&>();
  if (Contains(kElsewhere, expression)) return AtCut::kNothing;
  return Contains(kDividing, expression) ? AtCut::kDivides : AtCut::kUnknown;
}

AtCut OfPreTokenizer(const nlohmann::json& step) {
  const std::string type = TypeOf(step);
  if (type == "Split") return OfSplit(step);
  if (type == "Digits") return AtCut::kNothing;
  if (type == "ByteLevel") {
    if (!Is(step, "add_prefix_space", false, true)) return AtCut::kUnknown;
    return Is(step, "use_regex", true, true) ? AtCut::kDivides : AtCut::kNothing;
  }
  if (type != "Sequence" || !step.contains("pretokenizers") || !step["pretokenizers"].is_array()) {
    return AtCut::kUnknown;
  }
  AtCut all = AtCut::kNothing;
  for (const nlohmann::json& one : step["pretokenizers"]) {
    const AtCut at = OfPreTokenizer(one);
    if (at == AtCut::kUnknown) return at;
    if (at == AtCut::kDivides) all = at;
  }
  return all;
}

// Whether a normalizer leaves cuts valid. Normal forms do: they change neither side of a newline behind ASCII and
// before a letter.
bool LeavesCuts(const nlohmann::json& normalizer) {
  if (normalizer.is_null()) return true;
  const std::string type = TypeOf(normalizer);
  if (type == "NFC" || type == "NFKC" || type == "Lowercase") return true;
  return type == "Sequence" && normalizer.contains("normalizers") && normalizer["normalizers"].is_array() &&
         std::ranges::all_of(normalizer["normalizers"], LeavesCuts);
}

}  // namespace

bool CutsBehindNewlines(const nlohmann::json& normalizer, const nlohmann::json& pre_tokenizer) {
  return LeavesCuts(normalizer) && OfPreTokenizer(pre_tokenizer) == AtCut::kDivides;
}

}  // namespace zerofleet::text
