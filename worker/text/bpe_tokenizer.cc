// The parts of a tokenizer.json in the order in which a text passes them; see bpe_tokenizer.h.
#include "worker/text/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "base/status.h"
#include "worker/text/cuts.h"
#include "worker/text/tiktoken.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

constexpr int32_t kMaxTokenId = 1 << 24;

// The names that GPT-2, Llama 2, Llama 3, Gemma and ChatML give to the token that ends a text.
constexpr const char* kEndNames[] = {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>"};

// Whether a token, found before the text is split, could extend over a place where the text is cut.
bool MayCrossANewline(const AddedToken& token) {
  return absl::StrContains(token.content, '\n') ||
         (token.lstrip && !token.content.empty() && absl::ascii_isalpha(token.content.front()));
}

nlohmann::json Part(const nlohmann::json& file, const char* key) {
  return file.contains(key) ? file[key] : nlohmann::json();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BpeTokenizer>> BpeTokenizer::Parse(std::string_view json, std::string_view config) {
  ZF_ASSIGN_OR_RETURN(const nlohmann::json file, ParseJson(json));
  auto tokenizer = std::unique_ptr<BpeTokenizer>(new BpeTokenizer);
  tokenizer->digest_ = Digest128(json);
  ZF_RETURN_IF_ERROR(tokenizer->ParseParts(file));
  ZF_RETURN_IF_ERROR(tokenizer->AddTokens());
  ZF_RETURN_IF_ERROR(tokenizer->FindEndOfText(config));
  return tokenizer;
}

absl::StatusOr<std::unique_ptr<BpeTokenizer>> BpeTokenizer::ParseRanks(std::string_view contents,
                                                                       std::string_view name) {
  ZF_ASSIGN_OR_RETURN(const TiktokenRanks ranks, ParseTiktoken(contents, name));
  auto tokenizer = std::unique_ptr<BpeTokenizer>(new BpeTokenizer);
  tokenizer->digest_ = Digest128(contents);
  ZF_ASSIGN_OR_RETURN(tokenizer->model_, BpeModel::FromRanks(ranks.tokens));
  if (!tokenizer->model_.knows_every_byte()) return absl::InvalidArgumentError("lacks a token for some byte");
  tokenizer->words_.scanner = ranks.scanner;
  tokenizer->cuts_behind_newlines_ = true;
  for (const auto& [content, id] : ranks.special) {
    tokenizer->added_.push_back({.id = id,
                                 .content = content,
                                 .single_word = false,
                                 .lstrip = false,
                                 .rstrip = false,
                                 .normalized = false,
                                 .special = true});
  }
  ZF_ASSIGN_OR_RETURN(tokenizer->decoder_, ParseDecoder({{"type", "ByteLevel"}}, "decoder"));
  ZF_RETURN_IF_ERROR(tokenizer->AddTokens());
  ZF_RETURN_IF_ERROR(tokenizer->FindEndOfText(""));
  return tokenizer;
}

absl::Status BpeTokenizer::ParseParts(const nlohmann::json& file) {
  if (!file.is_object() || !file.contains("model") || !file["model"].is_object()) {
    return absl::InvalidArgumentError("model: is missing; a tokenizer.json has one");
  }
  const nlohmann::json& model = file["model"];
  // Files from before 2021 leave out the type, BPE.
  const nlohmann::json type = Part(model, "type");
  if (!type.is_null() && type != "BPE") {
    return absl::InvalidArgumentError(
        absl::StrCat("model.type: ", type.dump(-1, ' ', true), " is not supported; must be BPE"));
  }
  ZF_ASSIGN_OR_RETURN(model_, BpeModel::Parse(model));
  ZF_ASSIGN_OR_RETURN(added_, ParseAddedTokens(Part(file, "added_tokens")));
  ZF_ASSIGN_OR_RETURN(normalizer_, ParseNormalizer(Part(file, "normalizer"), "normalizer"));
  ZF_ASSIGN_OR_RETURN(pre_tokenizer_, ParsePreTokenizer(Part(file, "pre_tokenizer"), "pre_tokenizer"));
  words_ = FindByteLevelWords(Part(file, "pre_tokenizer"));
  ZF_ASSIGN_OR_RETURN(decoder_, ParseDecoder(Part(file, "decoder"), "decoder"));
  cuts_behind_newlines_ = CutsBehindNewlines(Part(file, "normalizer"), Part(file, "pre_tokenizer")) &&
                          std::ranges::none_of(added_, MayCrossANewline);
  return ParsePostProcessor(Part(file, "post_processor"), "post_processor");
}

absl::Status BpeTokenizer::AddTokens() {
  auto add = [&](int32_t id, const std::string& content, bool special) {
    if (id >= kMaxTokenId) return absl::InvalidArgumentError(absl::StrCat("id ", id, ": must be below ", kMaxTokenId));
    if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(id + 1, {"", false, false});
    tokens_[id] = {content, true, special};
    return absl::OkStatus();
  };
  for (const auto& [content, id] : model_.vocab()) ZF_RETURN_IF_ERROR(add(id, content, false));
  for (AddedToken& token : added_) {
    // A token in the model's vocabulary keeps the model's id.
    if (const int32_t id = model_.IdOf(token.content); id >= 0) token.id = id;
    std::string content = token.content;
    if (token.normalized && normalizer_ != nullptr) ZF_RETURN_IF_ERROR(normalizer_(content));
    ZF_RETURN_IF_ERROR(add(token.id, content, token.special));  // it decodes to its normalized text, as theirs
    ZF_RETURN_IF_ERROR((token.normalized ? normalized_finder_ : raw_finder_).Add(token, content));
  }
  const auto count = static_cast<int32_t>(tokens_.size());
  for (const std::vector<int32_t>* ids : {&before_, &after_}) {
    for (int32_t id : *ids) {
      if (id >= count) return absl::InvalidArgumentError(absl::StrCat("post_processor: token ", id, " is unknown"));
    }
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::FindEndOfText(std::string_view config) {
  auto id_of = [&](std::string_view content) -> std::optional<int32_t> {
    for (const AddedToken& token : added_) {
      if (token.content == content) return token.id;
    }
    const int32_t id = model_.IdOf(content);
    return id < 0 ? std::nullopt : std::optional(id);
  };
  if (!config.empty()) {
    const absl::StatusOr<nlohmann::json> file = ParseJson(config);
    if (!file.ok()) return Annotate(file.status(), kTokenizerConfigFile);
    nlohmann::json name = file->is_object() ? Part(*file, kEndTokenKey) : nlohmann::json();
    if (name.is_object()) name = Part(name, "content");
    if (name.is_string()) {
      end_of_text_ = id_of(name.get_ref<const std::string&>());
      if (end_of_text_) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(kTokenizerConfigFile, ": ", kEndTokenKey, ": '",
                                                     name.get_ref<const std::string&>(),
                                                     "' is no token of the tokenizer"));
    }
  }
  for (const char* name : kEndNames) {
    end_of_text_ = id_of(name);
    if (end_of_text_) break;
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::ParsePostProcessor(const nlohmann::json& object, const std::string& where) {
  if (object.is_null()) return absl::OkStatus();
  auto bad = [&](const std::string& what) { return absl::InvalidArgumentError(absl::StrCat(where, ": ", what)); };
  if (!object.is_object() || !object.contains("type") || !object["type"].is_string()) return bad("has no type");
  const std::string type = object["type"].get<std::string>();
  if (type == "ByteLevel") return absl::OkStatus();  // it changes only offsets
  if (type == "TemplateProcessing") return ParseTemplate(object, where);
  if (type != "Sequence") return bad(absl::StrCat("type '", type, "' is not supported"));
  if (!object.contains("processors") || !object["processors"].is_array()) return bad("processors: must be a list");
  int index = 0;
  for (const nlohmann::json& processor : object["processors"]) {
    ZF_RETURN_IF_ERROR(ParsePostProcessor(processor, absl::StrCat(where, ".processors[", index++, "]")));
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::ParseTemplate(const nlohmann::json& object, const std::string& where) {
  auto bad = [&](const std::string& what) { return absl::InvalidArgumentError(absl::StrCat(where, ": ", what)); };
  if (!object.contains("single") || !object["single"].is_array()) return bad("single: must be a list");
  const nlohmann::json specials = Part(object, "special_tokens");
  std::vector<int32_t> before, after;
  bool behind_text = false;
  for (const nlohmann::json& part : object["single"]) {
    if (part.is_object() && part.contains("Sequence")) {
      if (behind_text) return bad("single: a text that occurs twice is not supported");
      behind_text = true;
      continue;
    }
    if (!part.is_object() || !part.contains("SpecialToken") || !part["SpecialToken"].is_object()) {
      return bad("single: must hold Sequence and SpecialToken");
    }
    const nlohmann::json name = Part(part["SpecialToken"], "id");
    if (!name.is_string() || !specials.is_object() || !specials.contains(name.get_ref<const std::string&>())) {
      return bad("single: a SpecialToken is not among special_tokens");
    }
    const nlohmann::json& special = specials[name.get_ref<const std::string&>()];
    if (!special.is_object() || !special.contains("ids") || !special["ids"].is_array())
      return bad("special_tokens: have no ids");
    for (const nlohmann::json& id : special["ids"]) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMaxTokenId)
        return bad("special_tokens: have ids that are none");
      (behind_text ? after : before).push_back(id.get<int32_t>());
    }
  }
  if (!behind_text) return bad("single: has no Sequence");
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
  return absl::OkStatus();
}

void BpeTokenizer::EncodeWords(std::string_view part, std::vector<int32_t>& ids) const {
  WordCache& cache = WordCache::OfThread(words_of_threads_);
  const auto encode = [this](std::string_view word, std::vector<int32_t>& into) { model_.EncodeBytes(word, into); };
  for (size_t at = 0; at < part.size();) {
    // A digit that becomes a piece of its own ends the piece before it.
    size_t end = part.size();
    if (words_.digits_alone) {
      end = FirstNumeric(part, at);
      if (end == at) end += CharacterAt(part, at).bytes;
    }
    const std::string_view words = part.substr(0, end);
    cache.Encode(
        words, at, end, [&](size_t begin, std::span<size_t> ends) { return words_.scanner(words, begin, ends); }, ids,
        encode);
    at = end;
  }
}

void BpeTokenizer::EncodePiece(std::string_view piece, std::vector<int32_t>& ids) const {
  WordCache& cache = WordCache::OfThread(words_of_threads_);
  const auto encode = [this](std::string_view word, std::vector<int32_t>& into) { model_.Encode(word, into); };
  const auto scan = WordCache::OneByOne(piece.size(), [&](size_t at) { return model_.WordEnd(piece, at); });
  cache.Encode(piece, 0, piece.size(), scan, ids, encode);
}

absl::Status BpeTokenizer::EncodeNormalized(std::string_view part, bool first, std::vector<int32_t>& ids) const {
  if (words_.scanner != nullptr) {
    EncodeWords(part, ids);
    return absl::OkStatus();
  }
  std::vector<Piece> pieces;
  pieces.push_back({std::string(part), first});
  if (pre_tokenizer_ != nullptr) ZF_RETURN_IF_ERROR(pre_tokenizer_(pieces));
  for (const Piece& piece : pieces) EncodePiece(piece.text, ids);
  return absl::OkStatus();
}

absl::Status BpeTokenizer::EncodePart(std::string_view part, bool first, std::vector<int32_t>& ids) const {
  std::string normalized;
  if (normalizer_ != nullptr) {
    normalized = part;
    ZF_RETURN_IF_ERROR(normalizer_(normalized));
    part = normalized;
  }
  if (normalized_finder_.empty()) return EncodeNormalized(part, first, ids);
  for (const AddedTokenPart& found : normalized_finder_.Split(part)) {
    if (found.token != nullptr) {
      ids.push_back(found.token->id);
    } else {
      ZF_RETURN_IF_ERROR(
          EncodeNormalized(part.substr(found.begin, found.end - found.begin), first && found.begin == 0, ids));
    }
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::EncodeTo(std::string_view text, bool special, std::vector<int32_t>& ids) const {
  std::string replaced;
  if (!IsUtf8(text)) text = replaced = ReplaceBroken(text);
  if (special) ids.insert(ids.end(), before_.begin(), before_.end());
  for (const AddedTokenPart& part : raw_finder_.Split(text)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
    } else {
      ZF_RETURN_IF_ERROR(EncodePart(text.substr(part.begin, part.end - part.begin), part.begin == 0, ids));
    }
  }
  if (special) ids.insert(ids.end(), after_.begin(), after_.end());
  return absl::OkStatus();
}

size_t BpeTokenizer::LastCut(std::string_view text) const {
  if (!cuts_behind_newlines_) return 0;
  for (size_t at = text.size(); at-- > 2;) {
    if (text[at - 1] == '\n' && absl::ascii_isalpha(text[at]) && absl::ascii_isgraph(text[at - 2])) return at;
  }
  return 0;
}

absl::StatusOr<std::string> BpeTokenizer::Decode(std::span<const int32_t> ids, bool special) const {
  std::vector<std::string> texts;
  for (int32_t id : ids) {
    if (id < 0 || id >= vocab() || !tokens_[id].known) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " is not in the tokenizer's vocabulary"));
    }
    if (special || !tokens_[id].special) texts.push_back(tokens_[id].content);
  }
  if (decoder_ == nullptr) return absl::StrJoin(texts, " ");
  ZF_RETURN_IF_ERROR(decoder_(texts));
  return absl::StrJoin(texts, "");
}

}  // namespace zerofleet::text
