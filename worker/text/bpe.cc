// Vocabulary, merges and merging; see bpe.h.
#include "worker/text/bpe.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "worker/text/byte_level.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

absl::Status BadModel(const std::string& what) { return absl::InvalidArgumentError(absl::StrCat("model.", what)); }

bool IsSet(const nlohmann::json& object, const char* key) { return object.contains(key) && !object[key].is_null(); }

absl::StatusOr<bool> Flag(const nlohmann::json& model, const char* key) {
  if (!IsSet(model, key)) return false;
  if (!model[key].is_boolean()) return BadModel(absl::StrCat(key, ": must be true or false"));
  return model[key].get<bool>();
}

absl::Status CheckSupported(const nlohmann::json& model) {
  if (IsSet(model, "dropout") && model["dropout"] != 0) return BadModel("dropout: is not supported");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (IsSet(model, key) && model[key] != "") return BadModel(absl::StrCat(key, ": is not supported"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BpeModel> BpeModel::Parse(const nlohmann::json& model) {
  BpeModel bpe;
  ZF_RETURN_IF_ERROR(CheckSupported(model));
  ZF_RETURN_IF_ERROR(bpe.ParseVocab(model));
  ZF_RETURN_IF_ERROR(bpe.ParseMerges(model));
  ZF_ASSIGN_OR_RETURN(bpe.fuse_unknown_, Flag(model, "fuse_unk"));
  ZF_ASSIGN_OR_RETURN(bpe.ignore_merges_, Flag(model, "ignore_merges"));
  ZF_ASSIGN_OR_RETURN(const bool byte_fallback, Flag(model, "byte_fallback"));
  for (int byte = 0; byte_fallback && byte < 256; ++byte) {
    bpe.byte_ids_.push_back(bpe.IdOf(absl::StrFormat("<0x%02X>", byte)));
  }
  if (IsSet(model, "unk_token")) {
    if (!model["unk_token"].is_string()) return BadModel("unk_token: must be a string");
    bpe.unknown_ = bpe.IdOf(model["unk_token"].get_ref<const std::string&>());
    if (bpe.unknown_ < 0) return BadModel("unk_token: is not in the vocabulary");
  }
  bpe.FindSymbols();
  bpe.FindDivisible();
  return bpe;
}

absl::StatusOr<BpeModel> BpeModel::FromRanks(const std::vector<std::string>& tokens) {
  BpeModel bpe;
  bpe.ignore_merges_ = true;
  bpe.vocab_.reserve(tokens.size());
  for (const std::string& token : tokens) {
    if (!bpe.vocab_.emplace(token, static_cast<int32_t>(bpe.vocab_.size())).second) {
      return absl::InvalidArgumentError(absl::StrCat("a token occurs twice, first with rank ", bpe.IdOf(token)));
    }
  }
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string_view token = tokens[rank];
    for (size_t cut = CharacterAt(token, 0).bytes; cut < token.size(); cut += CharacterAt(token, cut).bytes) {
      const int32_t left = bpe.IdOf(token.substr(0, cut));
      const int32_t right = left < 0 ? -1 : bpe.IdOf(token.substr(cut));
      const auto id = static_cast<int32_t>(rank);
      if (right >= 0) bpe.merges_.Add(left, right, id, id);
    }
  }
  bpe.FindSymbols();
  return bpe;
}

void BpeModel::FindSymbols() {
  character_ids_.assign(kCharacters, -1);
  for (const auto& [token, id] : vocab_) {
    if (token.empty()) continue;
    const Character character = CharacterAt(token, 0);
    if (character.bytes == token.size() && character.code < kCharacters) character_ids_[character.code] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t id = IdOf(ToByteLevel(std::string(1, static_cast<char>(byte))));
    if (id < 0) return byte_symbols_.clear();
    byte_symbols_.push_back(id);
  }
}

// A piece is not divisible if as a whole it can be a token without merges; if characters can be left out, so that those
// beside them are neighbours; and if tokens are merged that stand for characters under other names, those of bytes or
// of what is unknown.
void BpeModel::FindDivisible() {
  const bool leaves_out = unknown_ < 0 && (byte_ids_.empty() || std::ranges::find(byte_ids_, -1) != byte_ids_.end());
  absl::flat_hash_set<int32_t> renamed(byte_ids_.begin(), byte_ids_.end());
  renamed.insert(unknown_);
  divisible_ = !ignore_merges_ && !leaves_out && !merges_.AnyPair([&](int32_t left, int32_t right) {
    return renamed.contains(left) || renamed.contains(right);
  });
}

absl::Status BpeModel::ParseVocab(const nlohmann::json& model) {
  if (!model.contains("vocab") || !model["vocab"].is_object()) return BadModel("vocab: must be an object");
  vocab_.reserve(model["vocab"].size());
  for (const auto& [token, id] : model["vocab"].items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
      return BadModel(absl::StrCat("vocab: the id of '", token, "' is not a whole number below 2^31"));
    }
    vocab_.emplace(token, id.get<int32_t>());
    joints_.AddToken(token);
  }
  return absl::OkStatus();
}

absl::Status BpeModel::ParseMerges(const nlohmann::json& model) {
  if (!model.contains("merges") || !model["merges"].is_array()) return BadModel("merges: must be a list");
  int32_t rank = 0;
  for (const nlohmann::json& merge : model["merges"]) {
    if (merge.is_string()) {
      const std::string_view line = merge.get_ref<const std::string&>();
      if (line.starts_with("#version")) continue;
      const size_t space = line.find(' ');
      if (space == line.npos || line.find(' ', space + 1) != line.npos) {
        return BadModel(absl::StrCat("merges[", rank, "]: '", std::string(line), "' is not two tokens"));
      }
      ZF_RETURN_IF_ERROR(AddMerge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)), rank));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      ZF_RETURN_IF_ERROR(
          AddMerge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), rank));
    } else {
      return BadModel(absl::StrCat("merges[", rank, "]: is not two tokens"));
    }
    ++rank;
  }
  return absl::OkStatus();
}

absl::Status BpeModel::AddMerge(const std::string& left, const std::string& right, int32_t rank) {
  const int32_t left_id = IdOf(left), right_id = IdOf(right), id = IdOf(absl::StrCat(left, right));
  if (left_id < 0 || right_id < 0 || id < 0) {
    return BadModel(
        absl::StrCat("merges[", rank, "]: '", left, "', '", right, "' or both together are not in the vocabulary"));
  }
  merges_.Add(left_id, right_id, rank, id);
  joints_.Add(left, right);
  return absl::OkStatus();
}

int32_t BpeModel::IdOf(std::string_view token) const {
  const auto found = vocab_.find(absl::string_view(token.data(), token.size()));
  return found == vocab_.end() ? -1 : found->second;
}

std::vector<int32_t> BpeModel::Symbols(std::string_view word) const {
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  bool unknown = false;  // an unknown token is pending, since others may be fused to it
  for (size_t at = 0; at < word.size();) {
    const Character found = CharacterAt(word, at);
    const std::string_view character = word.substr(at, found.bytes);
    at += found.bytes;
    const int32_t id = found.code < kCharacters ? character_ids_[found.code] : IdOf(character);
    if (id >= 0) {
      if (unknown) symbols.push_back(unknown_);
      unknown = false;
      symbols.push_back(id);
      continue;
    }
    auto byte_id = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
    if (!byte_ids_.empty() && std::ranges::all_of(character, [&](char c) { return byte_id(c) >= 0; })) {
      // A pending unknown token stays pending, as in Hugging Face's tokenizers.
      for (char c : character) symbols.push_back(byte_id(c));
      continue;
    }
    if (unknown_ < 0) continue;
    if (unknown && !fuse_unknown_) symbols.push_back(unknown_);
    unknown = true;
  }
  if (unknown) symbols.push_back(unknown_);
  return symbols;
}

void BpeModel::Encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (ignore_merges_) {
    if (const int32_t id = IdOf(word); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  std::vector<int32_t> symbols = Symbols(word);
  merges_.Apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void BpeModel::EncodeBytes(std::string_view bytes, std::vector<int32_t>& ids) const {
  if (ignore_merges_ || byte_symbols_.empty()) {
    const std::string word = ToByteLevel(bytes);
    const int32_t id = ignore_merges_ ? IdOf(word) : -1;
    if (id >= 0) return ids.push_back(id);
    if (byte_symbols_.empty()) return Encode(word, ids);
  }
  std::vector<int32_t> symbols;
  symbols.reserve(bytes.size());
  for (const char byte : bytes) symbols.push_back(byte_symbols_[static_cast<uint8_t>(byte)]);
  merges_.Apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace zerofleet::text
