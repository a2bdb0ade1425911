// Parsing and finding added tokens; see added_tokens.h.
#include "worker/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

// The longest content of an added token, which bounds the time per byte of text, and the longest of all together, which
// bounds the memory for finding them.
constexpr size_t kMaxAddedTokenBytes = 1024, kMaxAddedBytes = size_t{1} << 20;

absl::StatusOr<bool> TokenFlag(const nlohmann::json& entry, const char* key) {
  if (!entry.contains(key) || !entry[key].is_boolean()) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": must be true or false"));
  }
  return entry[key].get<bool>();
}

absl::StatusOr<AddedToken> ParseAddedToken(const nlohmann::json& entry) {
  if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_number_unsigned() ||
      entry["id"].get<uint64_t>() > INT32_MAX) {
    return absl::InvalidArgumentError("id: must be a whole number below 2^31");
  }
  AddedToken token{};
  token.id = entry["id"].get<int32_t>();
  if (!entry.contains("content") || !entry["content"].is_string()) {
    return absl::InvalidArgumentError("content: must be a string");
  }
  token.content = entry["content"].get<std::string>();
  if (token.content.size() > kMaxAddedTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("content: has more than ", kMaxAddedTokenBytes, " bytes"));
  }
  ZF_ASSIGN_OR_RETURN(token.single_word, TokenFlag(entry, "single_word"));
  ZF_ASSIGN_OR_RETURN(token.lstrip, TokenFlag(entry, "lstrip"));
  ZF_ASSIGN_OR_RETURN(token.rstrip, TokenFlag(entry, "rstrip"));
  ZF_ASSIGN_OR_RETURN(token.normalized, TokenFlag(entry, "normalized"));
  ZF_ASSIGN_OR_RETURN(token.special, TokenFlag(entry, "special"));
  return token;
}

// The character that ends at `end`, which must be above 0; `begin` becomes its beginning.
Character CharacterBefore(std::string_view text, size_t end, size_t& begin) {
  begin = end - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return CharacterAt(text, begin);
}

bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  size_t before = 0;
  if (begin > 0 && IsWord(CharacterBefore(text, begin, before).code)) return false;
  return end == text.size() || !IsWord(CharacterAt(text, end).code);
}

size_t WithoutSpaceBefore(std::string_view text, size_t end, size_t first) {
  size_t begin = end;
  while (end > first && IsWhiteSpace(CharacterBefore(text, end, begin).code)) end = begin;
  return end;
}

size_t WithoutSpaceAfter(std::string_view text, size_t end) {
  while (end < text.size()) {
    const Character character = CharacterAt(text, end);
    if (!IsWhiteSpace(character.code)) break;
    end += character.bytes;
  }
  return end;
}

}  // namespace

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const nlohmann::json& list) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) return absl::InvalidArgumentError("added_tokens: must be a list");
  for (const nlohmann::json& entry : list) {
    absl::StatusOr<AddedToken> token = ParseAddedToken(entry);
    if (!token.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("added_tokens[", tokens.size(), "].", token.status().message()));
    }
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

uint32_t AddedTokenFinder::Next(uint32_t node, uint8_t byte) const {
  if (node == 0) return first_[byte];
  uint32_t next = nodes_[node].child;
  while (next != 0 && nodes_[next].byte != byte) next = nodes_[next].sibling;
  return next;
}

absl::Status AddedTokenFinder::Add(const AddedToken& token, std::string_view content) {
  if (content.empty()) return absl::OkStatus();
  if (content.size() > kMaxAddedBytes - std::min(nodes_.size(), kMaxAddedBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("added_tokens: all contents together must have <= ", kMaxAddedBytes, " bytes"));
  }
  uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t next = Next(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      uint32_t& first = node == 0 ? first_[byte] : nodes_[node].child;
      const uint32_t sibling = first;
      first = next;
      nodes_.push_back({.sibling = sibling, .byte = byte});
    }
    node = next;
  }
  if (nodes_[node].token == nullptr) nodes_[node].token = &token;
  return absl::OkStatus();
}

const AddedToken* AddedTokenFinder::LongestAt(std::string_view text, size_t at, size_t& bytes) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (size_t end = at; end < text.size();) {
    node = Next(node, static_cast<uint8_t>(text[end]));
    if (node == 0) break;
    ++end;
    if (nodes_[node].token == nullptr) continue;
    longest = nodes_[node].token;
    bytes = end - at;
  }
  return longest;
}

std::vector<AddedTokenPart> AddedTokenFinder::Split(std::string_view text) const {
  std::vector<AddedTokenPart> parts;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    if (first_[static_cast<uint8_t>(text[at])] == 0) {
      ++at;
      continue;
    }
    size_t bytes = 1;
    const AddedToken* token = LongestAt(text, at, bytes);
    size_t begin = at, end = at + bytes;
    at = end;
    if (token == nullptr || (token->single_word && !StandsAlone(text, begin, end))) continue;
    if (token->lstrip) begin = std::max(WithoutSpaceBefore(text, begin, std::min(done, begin)), done);
    if (token->rstrip) end = WithoutSpaceAfter(text, end);
    if (done < begin) parts.push_back({nullptr, done, begin});
    parts.push_back({token, begin, end});
    done = end;
  }
  if (done < text.size()) parts.push_back({nullptr, done, text.size()});
  return parts;
}

}  // namespace zerofleet::text
