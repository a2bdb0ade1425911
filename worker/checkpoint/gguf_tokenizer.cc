// Writes tokenizer.json from lists, and lists from it; see gguf_tokenizer.h.
#include "worker/checkpoint/gguf_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;  // values of tokenizer.ggml.token_type

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

// The text of the token whose id is the fact `key`; null if the fact is missing or no such id.
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

// Whether a tokenizer with these steps splits text as `row` does; settings that only change offsets are ignored.
bool SplitsAs(const SplitRow& row, const nlohmann::json& normalizer, nlohmann::json pre_tokenizer) {
  nlohmann::json wanted = nlohmann::json::parse(row.pre_tokenizer);
  for (nlohmann::json* one : {&wanted, &pre_tokenizer}) {
    if (!one->is_object()) return false;
    one->erase("trim_offsets");
    if (!one->contains("pretokenizers") || !(*one)["pretokenizers"].is_array()) continue;
    for (nlohmann::json& step : (*one)["pretokenizers"]) {
      if (step.is_object()) step.erase("trim_offsets");
    }
  }
  return wanted == pre_tokenizer && nlohmann::json::parse(row.normalizer) == normalizer;
}

// The member `key`; null if there is none.
nlohmann::json Member(const nlohmann::json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : nlohmann::json();
}

// The id of the token that tokenizer_config.json names under `key`, as a text or as an object with its content.
std::optional<uint32_t> IdOf(const nlohmann::json& config, const char* key, const std::vector<std::string>& tokens) {
  nlohmann::json token = Member(config, key);
  if (token.is_object()) token = Member(token, "content");
  if (!token.is_string()) return std::nullopt;
  const auto found = std::find(tokens.begin(), tokens.end(), token.get<std::string>());
  if (found == tokens.end()) return std::nullopt;
  return static_cast<uint32_t>(found - tokens.begin());
}

struct TokenLists {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
};

// Lists tokens by id. Ids without a token, up to the model's vocabulary, get the names that llama.cpp's converter gives
// them.
TokenLists ListTokens(const nlohmann::json& tokenizer, int64_t vocab) {
  const auto size = static_cast<size_t>(vocab);
  TokenLists lists = {std::vector<std::string>(size), std::vector<int32_t>(size, kUnused)};
  const auto put = [&](const nlohmann::json& id, const std::string& text, double type) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= size) return;
    lists.tokens[id.get<size_t>()] = text;
    lists.types[id.get<size_t>()] = static_cast<int32_t>(type);
  };
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) put(id, text, kNormal);
  for (const nlohmann::json& token : Member(tokenizer, "added_tokens")) {
    put(Member(token, "id"), Member(token, "content").get<std::string>(),
        Member(token, "special") == true ? kControl : kUserDefined);
  }
  for (size_t id = 0; id < size; ++id) {
    if (lists.types[id] == kUnused) lists.tokens[id] = absl::StrCat("[PAD", id, "]");
  }
  return lists;
}

std::vector<std::string> ListMerges(const nlohmann::json& merges) {
  std::vector<std::string> list;
  for (const nlohmann::json& merge : merges) {
    list.push_back(merge.is_string() ? merge.get<std::string>()
                                     : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return list;
}

}  // namespace

absl::StatusOr<GgufFacts> FactsOfTokenizer(const TokenizerFiles& files, int64_t vocab) {
  nlohmann::json tokenizer, config;
  for (const TokenizerFile& file : files) {
    if (file.name == text::kTokenizerFile) {
      ZF_ASSIGN_OR_RETURN(tokenizer, ParseJson(file.contents));
    } else if (file.name == text::kTokenizerConfigFile) {
      ZF_ASSIGN_OR_RETURN(config, ParseJson(file.contents));
    }
  }
  // The tokenizer's own parser has accepted the file, so its model is of type BPE, with a vocabulary and merges.
  const auto* const split = std::find_if(std::begin(kSplits), std::end(kSplits), [&](const SplitRow& row) {
    return SplitsAs(row, Member(tokenizer, "normalizer"), Member(tokenizer, "pre_tokenizer"));
  });
  if (split == std::end(kSplits)) {
    return absl::InvalidArgumentError(
        "its tokenizer splits text in a way that GGUF has no name for here (gpt-2, smollm, llama-bpe and qwen2 are "
        "written); export a folder and use llama.cpp's own converter");
  }
  TokenLists lists = ListTokens(tokenizer, vocab);
  GgufFacts facts = {{"tokenizer.ggml.model", std::string("gpt2")}, {"tokenizer.ggml.pre", std::string(split->name)}};
  const std::optional<uint32_t> bos = IdOf(config, "bos_token", lists.tokens),
                                eos = IdOf(config, "eos_token", lists.tokens);
  facts.emplace_back("tokenizer.ggml.tokens", std::move(lists.tokens));
  facts.emplace_back("tokenizer.ggml.token_type", std::move(lists.types));
  facts.emplace_back("tokenizer.ggml.merges", ListMerges(tokenizer["model"]["merges"]));
  if (bos) facts.emplace_back("tokenizer.ggml.bos_token_id", *bos);
  if (eos) facts.emplace_back("tokenizer.ggml.eos_token_id", *eos);
  const nlohmann::json single = Member(Member(tokenizer, "post_processor"), "single");
  const bool adds_bos = single.is_array() && !single.empty() && Member(single[0], "SpecialToken").is_object();
  facts.emplace_back("tokenizer.ggml.add_bos_token", adds_bos);
  const nlohmann::json chat = Member(config, "chat_template");
  if (chat.is_string()) facts.emplace_back("tokenizer.chat_template", chat.get<std::string>());
  return facts;
}

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
  auto& members = vocabulary.get_ref<Json::object_t&>();  // which looks through all there are for a key
  std::unordered_set<std::string_view> known;
  for (size_t id = 0; id < tokens->size(); ++id) {
    if (types != nullptr && (*types)[id] == kUnused) continue;
    if (!known.insert((*tokens)[id]).second) return DoNotFit("a token stands there twice");
    members.emplace_back((*tokens)[id], id);
  }
  // Every field that any release of tokenizers requires.
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
