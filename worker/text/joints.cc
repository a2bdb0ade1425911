// Kinds of characters, and words between them; see joints.h.
#include "worker/text/joints.h"

#include <tuple>

#include "worker/text/unicode.h"

namespace zerofleet::text {

std::pair<size_t, size_t> Joints::KindAt(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return {text.substr(at, bytes) == "\xE2\x96\x81" ? kSpaceMark : kOther, bytes};
}

void Joints::Add(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return;  // no symbol is empty
  size_t last = left.size() - 1;
  while (last > 0 && (static_cast<uint8_t>(left[last]) & 0xC0) == 0x80) --last;
  joined_[KindAt(left, last).first][KindAt(right, 0).first] = true;
}

void Joints::AddInside(std::string_view token) {
  for (size_t at = 0; at < token.size(); at += CharacterAt(token, at).bytes) Add(token.substr(0, at), token.substr(at));
}

void Joints::AddToken(std::string_view token) {
  if (token.empty()) return;
  const auto [kind, bytes] = KindAt(token, 0);
  if (bytes == token.size() && kind != kOther) known_[kind] = true;
}

size_t Joints::WordEnd(std::string_view text, size_t at) const {
  auto [before, bytes] = KindAt(text, at);
  for (at += bytes; at < text.size(); at += bytes) {
    size_t kind = static_cast<uint8_t>(text[at]);
    bytes = 1;
    if (kind >= 0x80) std::tie(kind, bytes) = KindAt(text, at);
    if (known_[kind] && !joined_[before][kind]) return at;
    before = kind;
  }
  return text.size();
}

}  // namespace zerofleet::text
