// Normalizing, merging by score, byte fallback and decoding, in the steps of sentencepiece 0.2; see
// sentencepiece_tokenizer.h.
#include "worker/text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/digest.h"
#include "base/status.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

constexpr std::string_view kSpacePiece = "\xE2\x96\x81", kBroken = "\xEF\xBF\xBD";

constexpr size_t kLongestDefined = 256;  // in bytes; user-defined pieces are searched for at every place

absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The byte that a piece such as "<0xAB>" stands for; -1 for other texts.
int ByteOf(std::string_view piece) {
  uint32_t byte = 0;
  const bool named = piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>';
  return named && absl::SimpleHexAtoi(AbslView(piece.substr(3, 2)), &byte) ? static_cast<int>(byte) : -1;
}

// Appends `bytes` to `text`; each byte that belongs to no character becomes U+FFFD.
void AppendBytes(std::string& bytes, std::string& text) {
  for (size_t at = 0; at < bytes.size();) {
    const Character character = CharacterAt(bytes, at);
    const size_t taken = character.valid ? character.bytes : 1;
    text += character.valid ? std::string_view(bytes).substr(at, taken) : kBroken;
    at += taken;
  }
  bytes.clear();
}

absl::Status CheckKind(const SentencePieceModel& model) {
  const auto refuse = [](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("a sentencepiece model ", what, " is not supported"));
  };
  switch (model.algorithm) {
    case SentencePieceModel::kBpe: break;
    case SentencePieceModel::kUnigram: return refuse("of the kind Unigram");
    case SentencePieceModel::kWord: return refuse("of the kind Word");
    default: return refuse("of the kind Char");
  }
  if (model.space_as_suffix) return refuse("with treat_whitespace_as_suffix");
  if (model.has_denormalizer) return refuse("with a denormalizer");
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.type == SentencePieceModel::kUnused) return refuse("with unused pieces");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> SentencePieceTokenizer::Parse(std::string_view contents) {
  auto tokenizer = std::unique_ptr<SentencePieceTokenizer>(new SentencePieceTokenizer);
  tokenizer->digest_ = Digest128(contents);
  ZF_ASSIGN_OR_RETURN(tokenizer->model_, ParseSentencePieceModel(contents));
  ZF_RETURN_IF_ERROR(CheckKind(tokenizer->model_));
  ZF_ASSIGN_OR_RETURN(tokenizer->charsmap_, Charsmap::Parse(tokenizer->model_.charsmap));
  ZF_RETURN_IF_ERROR(tokenizer->Index());
  return tokenizer;
}

absl::Status SentencePieceTokenizer::Index() {
  std::vector<int32_t> bytes(256, -1);
  for (int32_t id = 0; id < vocab(); ++id) {
    const SentencePieceModel::Piece& piece = model_.pieces[id];
    if (piece.text.empty()) return absl::InvalidArgumentError(absl::StrCat("piece ", id, " is empty"));
    switch (piece.type) {
      case SentencePieceModel::kUserDefined:
        if (piece.text.size() > kLongestDefined)
          return absl::InvalidArgumentError(absl::StrCat("piece ", id, " is too long"));
        user_defined_.emplace(piece.text, id);
        user_defined_lengths_.push_back(piece.text.size());
        [[fallthrough]];
      case SentencePieceModel::kNormal:
        if (!ids_.emplace(piece.text, id).second) {
          return absl::InvalidArgumentError(absl::StrCat("piece ", id, " occurs twice"));
        }
        joints_.AddToken(piece.text);
        joints_.AddInside(piece.text);
        break;
      case SentencePieceModel::kUnknown: unknown_ = id; break;
      case SentencePieceModel::kByte:
        if (ByteOf(piece.text) < 0) return absl::InvalidArgumentError(absl::StrCat("piece ", id, " is no byte"));
        bytes[ByteOf(piece.text)] = id;
        break;
      default: break;
    }
  }
  if (unknown_ < 0) return absl::InvalidArgumentError("has no piece for what is unknown");
  std::ranges::sort(user_defined_lengths_, std::greater<>());
  user_defined_lengths_.erase(std::unique(user_defined_lengths_.begin(), user_defined_lengths_.end()),
                              user_defined_lengths_.end());
  if (!model_.byte_fallback) return absl::OkStatus();
  if (std::ranges::find(bytes, -1) != bytes.end()) {
    return absl::InvalidArgumentError("has byte_fallback without a piece for each byte");
  }
  byte_ids_ = std::move(bytes);
  return absl::OkStatus();
}

std::optional<int32_t> SentencePieceTokenizer::end_of_text() const {
  const bool there = model_.eos_id >= 0 && model_.eos_id < vocab() &&
                     model_.pieces[model_.eos_id].type == SentencePieceModel::kControl;
  return there ? std::optional(model_.eos_id) : std::nullopt;
}

size_t SentencePieceTokenizer::UserDefinedAt(std::string_view text) const {
  for (const size_t length : user_defined_lengths_) {
    if (length <= text.size() && user_defined_.contains(AbslView(text.substr(0, length)))) return length;
  }
  return 0;
}

Charsmap::Match SentencePieceTokenizer::NormalizeBeginning(std::string_view text) const {
  if (const size_t defined = UserDefinedAt(text); defined > 0) return {text.substr(0, defined), defined};
  if (const Charsmap::Match match = charsmap_.LongestAt(text); match.bytes > 0) return match;
  const Character character = CharacterAt(text, 0);
  if (!character.valid) return {kBroken, 1};
  return {text.substr(0, character.bytes), character.bytes};
}

std::string SentencePieceTokenizer::Normalize(std::string_view text) const {
  const std::string_view space = model_.escape_whitespaces ? kSpacePiece : std::string_view(" ");
  while (model_.remove_extra_whitespaces && !text.empty()) {
    const Charsmap::Match match = NormalizeBeginning(text);
    if (match.replacement != " ") break;
    text.remove_prefix(match.bytes);
  }
  std::string normalized;
  if (text.empty()) return normalized;
  normalized.reserve(3 * text.size());
  if (model_.add_dummy_prefix) normalized += space;
  bool behind_space = model_.remove_extra_whitespaces;
  while (!text.empty()) {
    const Charsmap::Match match = NormalizeBeginning(text);
    std::string_view piece = match.replacement;
    while (behind_space && TakePrefix(piece, " ")) {
    }
    if (!piece.empty()) {
      for (const char c : piece) {
        if (c == ' ') {
          normalized += space;
        } else {
          normalized += c;
        }
      }
      behind_space = piece.ends_with(' ');
    }
    text.remove_prefix(match.bytes);
    if (!model_.remove_extra_whitespaces) behind_space = false;
  }
  while (model_.remove_extra_whitespaces && std::string_view(normalized).ends_with(space)) {
    normalized.resize(normalized.size() - space.size());
  }
  return normalized;
}

struct SentencePieceTokenizer::Symbol {
  std::string_view text;  // empty: merged into the symbol before
  int64_t before, after;  // -1: none
  bool frozen;            // user-defined: merged with nothing
};

// Merges two neighbours that together are a piece: the piece of the highest score first, and of equal scores the
// leftmost.
std::vector<SentencePieceTokenizer::Symbol> SentencePieceTokenizer::Merge(std::string_view text) const {
  std::vector<Symbol> symbols;
  while (!text.empty()) {
    const auto number = std::ssize(symbols);
    const size_t defined = UserDefinedAt(text);
    const size_t bytes = defined > 0 ? defined : CharacterAt(text, 0).bytes;
    symbols.push_back({text.substr(0, bytes), number - 1, text.size() == bytes ? -1 : number + 1, defined > 0});
    text.remove_prefix(bytes);
  }
  struct Candidate {
    float score;
    int64_t left, right;
    size_t bytes;
    bool operator<(const Candidate& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };
  std::priority_queue<Candidate> queue;
  const auto look = [&](int64_t left, int64_t right) {
    if (left < 0 || right < 0 || symbols[left].frozen || symbols[right].frozen) return;
    const std::string_view both(symbols[left].text.data(), symbols[left].text.size() + symbols[right].text.size());
    const auto found = ids_.find(AbslView(both));
    if (found != ids_.end()) queue.push({model_.pieces[found->second].score, left, right, both.size()});
  };
  for (int64_t i = 1; i < std::ssize(symbols); ++i) look(i - 1, i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol &left = symbols[top.left], &right = symbols[top.right];
    if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != top.bytes) continue;
    left.text = {left.text.data(), top.bytes};
    left.after = right.after;
    if (right.after >= 0) symbols[right.after].before = top.left;
    right.text = {};
    look(left.before, top.left);
    look(top.left, left.after);
  }
  return symbols;
}

// Consecutive unknown pieces become one id, unless they become bytes.
void SentencePieceTokenizer::AppendIds(std::string_view piece, bool& unknown_before, std::vector<int32_t>& ids) const {
  const auto found = ids_.find(AbslView(piece));
  const bool unknown = found == ids_.end();
  if (!unknown) {
    ids.push_back(found->second);
  } else if (model_.byte_fallback) {
    for (const char byte : piece) ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  } else if (!unknown_before) {
    ids.push_back(unknown_);
  }
  unknown_before = unknown;
}

void SentencePieceTokenizer::EncodeWord(std::string_view word, std::vector<int32_t>& ids) const {
  bool unknown_before = false;  // a word that is not the first begins with a piece that is known
  for (const Symbol& symbol : Merge(word)) {
    if (!symbol.text.empty()) AppendIds(symbol.text, unknown_before, ids);
  }
}

absl::Status SentencePieceTokenizer::EncodeTo(std::string_view text, bool special, std::vector<int32_t>& ids) const {
  if (special && model_.bos_id >= 0 && model_.bos_id < vocab()) ids.push_back(model_.bos_id);
  const std::string normalized = Normalize(IsUtf8(text) ? std::string(text) : ReplaceBroken(text));
  const auto scan = WordCache::OneByOne(normalized.size(), [&](size_t at) { return joints_.WordEnd(normalized, at); });
  WordCache::OfThread(words_of_threads_)
      .Encode(normalized, 0, normalized.size(), scan, ids,
              [this](std::string_view word, std::vector<int32_t>& into) { EncodeWord(word, into); });
  return absl::OkStatus();
}

absl::StatusOr<std::string> SentencePieceTokenizer::Decode(std::span<const int32_t> ids, bool special) const {
  std::string text, bytes;
  bool begins = true;  // no text yet: a space at the beginning is not the text's own
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab()) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " is not in the tokenizer's vocabulary"));
    }
    const SentencePieceModel::Piece& piece = model_.pieces[id];
    if (piece.type == SentencePieceModel::kByte) {
      bytes += static_cast<char>(ByteOf(piece.text));
      begins = false;
      continue;
    }
    AppendBytes(bytes, text);
    if (piece.type == SentencePieceModel::kControl) {
      if (special) text += piece.text;
      continue;
    }
    if (piece.type == SentencePieceModel::kUnknown) {
      text += model_.unknown_surface;
      begins = false;
      continue;
    }
    std::string_view rest = piece.text;
    bool was_space = false;
    if (begins && (model_.add_dummy_prefix || model_.remove_extra_whitespaces)) {
      was_space = TakePrefix(rest, kSpacePiece) && !model_.remove_extra_whitespaces;
    }
    text += absl::StrReplaceAll(AbslView(rest), {{AbslView(kSpacePiece), " "}});
    begins = begins && !was_space && rest.empty();
  }
  AppendBytes(bytes, text);
  return text;
}

}  // namespace zerofleet::text
