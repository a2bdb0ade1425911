// tokenizer.json written from lists; see gguf_tokenizer.h.
#include "worker/checkpoint/gguf_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/json.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kControl = 3, kUserDefined = 4;  // of tokenizer.ggml.token_type

struct SplitRow {
  const char* name;  // tokenizer.ggml.pre
  const char *normalizer, *pre_tokenizer;
  bool ignores_merges;
};
constexpr SplitRow kSplits[] = {
    {"gpt-2", "null", R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})", false},
    {"smollm", "null",
     R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)"
     R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]})",
     false},
    {"llama-bpe", "null",
     R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)"
     R"("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|)"
     R"(\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},)"
     R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})",
     true},
    {"qwen2", R"({"type":"NFC"})",
     R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)"
     R"("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|)"
     R"(\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},)"
     R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}]})",
     false},
};

absl::Status DoNotFit(const std::string& what) { return absl::DataLossError(absl::StrCat("tokenizer.ggml: ", what)); }

// The text of the token whose id is the fact `key`, which may be missing.
Json TokenOf(const GgufFile& file, const char* key, const std::vector<std::string>& tokens) {
  if (!file.Has(key)) return nullptr;
  const absl::StatusOr<double> id = file.Number(key);
  if (!id.ok() || !(*id >= 0 && *id < static_cast<double>(tokens.size()))) return nullptr;
  return tokens[static_cast<size_t>(*id)];
}

Json AddedTokens(const std::vector<std::string>& tokens, const std::vector<double>& types) {
  Json added = Json::array();
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] != kControl && types[id] != kUserDefined) continue;
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", types[id] == kControl}});
  }
  return added;
}

}  // namespace

absl::StatusOr<TokenizerFiles> GgufTokenizer(const GgufFile& file) {
  const absl::StatusOr<std::string> model = file.Text("tokenizer.ggml.model"), pre = file.Text("tokenizer.ggml.pre");
  if (!model.ok() || *model != "gpt2" || !pre.ok()) return TokenizerFiles();
  const auto* const split =
      std::find_if(std::begin(kSplits), std::end(kSplits), [&](const SplitRow& row) { return *pre == row.name; });
  if (split == std::end(kSplits)) return TokenizerFiles();
  const std::vector<std::string>*const tokens = file.Texts("tokenizer.ggml.tokens"), *const merges = file.Texts(
                                                                                         "tokenizer.ggml.merges");
  const std::vector<double>* const types = file.Numbers("tokenizer.ggml.token_type");
  if (tokens == nullptr || merges == nullptr) return DoNotFit("tokens or merges are missing");
  if (types != nullptr && types->size() != tokens->size()) return DoNotFit("tokens and token_type differ in length");
  Json vocabulary = Json::object();
  for (size_t id = 0; id < tokens->size(); ++id) vocabulary[(*tokens)[id]] = id;
  if (vocabulary.size() != tokens->size()) return DoNotFit("a token stands there twice");
  // Every field that a release of tokenizers has asked for.
  Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", types == nullptr ? Json::array() : AddedTokens(*tokens, *types)},
      {"normalizer", Json::parse(split->normalizer)},
      {"pre_tokenizer", Json::parse(split->pre_tokenizer)},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", split->ignores_merges},
        {"vocab", std::move(vocabulary)},
        {"merges", *merges}}}};
  Json config = {{"bos_token", TokenOf(file, "tokenizer.ggml.bos_token_id", *tokens)},
                 {"eos_token", TokenOf(file, "tokenizer.ggml.eos_token_id", *tokens)}};
  if (const absl::StatusOr<std::string> chat = file.Text("tokenizer.chat_template"); chat.ok()) {
    config["chat_template"] = *chat;
  }
  const absl::StatusOr<double> adds_bos = file.Number("tokenizer.ggml.add_bos_token");
  if (adds_bos.ok() && *adds_bos != 0 && config["bos_token"].is_string()) {
    const std::string bos = config["bos_token"].get<std::string>();
    json["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"special_tokens", {{bos, {{"id", bos}, {"ids", {json["model"]["vocab"][bos]}}, {"tokens", {bos}}}}}}};
  }
  return TokenizerFiles{{text::kTokenizerFile, DumpJson(json) + "\n"},
                        {text::kTokenizerConfigFile, DumpJson(config, 2) + "\n"}};
}

}  // namespace zerofleet::checkpoint
