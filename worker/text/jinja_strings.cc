// Strings by characters, not bytes; see jinja_strings.h.
#include "worker/text/jinja_strings.h"

#include <algorithm>

#include "worker/text/unicode.h"

namespace zerofleet::text::jinja {
namespace {

size_t BytesAt(std::string_view text, size_t at) { return std::max<size_t>(1, CharacterAt(text, at).bytes); }

size_t LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u) --at;
  return at;
}

bool IsBlank(uint32_t code) { return IsWhiteSpace(code) || (code >= 0x1c && code <= 0x1f); }

bool IsOneOf(std::string_view character, const std::string* which) {
  return which == nullptr ? IsBlank(CharacterAt(character, 0).code) : which->find(character) != std::string::npos;
}

std::vector<std::string> SplitAtBlanks(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string> words;
  text = Strip(text, nullptr, true, true);
  while (!text.empty()) {
    size_t cut = std::string_view::npos, bytes = 0;
    const bool last = most >= 0 && static_cast<int64_t>(words.size()) >= most;
    for (size_t at = 0; !last && at < text.size(); at += BytesAt(text, at)) {
      if (!IsBlank(CharacterAt(text, at).code)) continue;
      cut = at;
      bytes = BytesAt(text, at);
      if (!from_right) break;
    }
    if (cut == std::string_view::npos) {
      words.emplace_back(text);
      break;
    }
    const std::string_view word = from_right ? text.substr(cut + bytes) : text.substr(0, cut);
    text = Strip(from_right ? text.substr(0, cut) : text.substr(cut + bytes), nullptr, !from_right, from_right);
    words.emplace_back(word);
  }
  return words;
}

}  // namespace

std::string_view Strip(std::string_view text, const std::string* which, bool left, bool right) {
  while (left && !text.empty() && IsOneOf(text.substr(0, BytesAt(text, 0)), which))
    text.remove_prefix(BytesAt(text, 0));
  while (right && !text.empty() && IsOneOf(text.substr(LastCharacter(text)), which)) {
    text = text.substr(0, LastCharacter(text));
  }
  return text;
}

std::vector<std::string> SplitText(std::string_view text, const std::string* separator, int64_t most, bool from_right) {
  std::vector<std::string> parts;
  if (separator == nullptr) {
    parts = SplitAtBlanks(text, most, from_right);
  } else {
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
      const size_t cut = from_right ? text.rfind(*separator) : text.find(*separator);
      if (cut == std::string_view::npos) break;
      const std::string_view behind = text.substr(cut + separator->size());
      parts.emplace_back(from_right ? behind : text.substr(0, cut));
      text = from_right ? text.substr(0, cut) : behind;
    }
    parts.emplace_back(text);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to, int64_t most) {
  std::string replaced;
  for (int64_t i = 0; most < 0 || i < most; ++i) {
    const size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    replaced.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return replaced.append(text);
}

std::string Capitals(std::string_view text, bool every_word) {
  std::string capitals;
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, BytesAt(text, at));
    at += character.size();
    capitals += begins ? UpperCase(character) : LowerCase(character);
    const uint32_t code = CharacterAt(character, 0).code;
    begins = every_word && (!IsWord(code) || IsNumeric(code) || code == '_');
  }
  return capitals;
}

}  // namespace zerofleet::text::jinja
