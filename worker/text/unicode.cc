// UTF-8 by hand, everything else from utf8proc; see unicode.h.
#include "worker/text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace zerofleet::text {
namespace {

// The range of a character's second byte, given its first (Unicode, table 3-7).
struct SecondByte {
  uint8_t low, high;
};

SecondByte SecondByteAfter(uint8_t first) {
  if (first == 0xE0) return {0xA0, 0xBF};
  if (first == 0xED) return {0x80, 0x9F};
  if (first == 0xF0) return {0x90, 0xBF};
  if (first == 0xF4) return {0x80, 0x8F};
  return {0x80, 0xBF};
}

size_t LengthAfter(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

std::string ComposeAll(std::string_view text, bool compatible) {
  if (text.empty()) return "";
  int options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  if (compatible) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), text.size(),
                                              &mapped, static_cast<utf8proc_option_t>(options));
  ZF_CHECK(bytes >= 0);  // only text that is not UTF-8 is refused
  std::string composed(reinterpret_cast<const char*>(mapped), bytes);
  std::free(mapped);
  return composed;
}

}  // namespace

Character CharacterAt(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  const size_t length = LengthAfter(first);
  if (length == 1) return {first, 1, true};
  if (length == 0) return {0xFFFD, 1, false};
  uint32_t code = first & (0x7Fu >> length);
  SecondByte allowed = SecondByteAfter(first);
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size()) return {0xFFFD, i, false};
    const auto byte = static_cast<uint8_t>(text[at + i]);
    if (byte < allowed.low || byte > allowed.high) return {0xFFFD, i, false};
    code = code << 6 | (byte & 0x3F);
    allowed = {0x80, 0xBF};
  }
  return {code, length, true};
}

void AppendUtf8(uint32_t code, std::string& text) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text.append(reinterpret_cast<const char*>(bytes), length);
}

size_t AsciiRun(std::string_view text, size_t at) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  while (at + sizeof(uint64_t) <= text.size()) {
    uint64_t bytes;
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    if ((bytes & kHighBits) != 0) break;
    at += sizeof bytes;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

bool IsUtf8(std::string_view text) {
  for (size_t at = AsciiRun(text, 0); at < text.size(); at = AsciiRun(text, at)) {
    const Character character = CharacterAt(text, at);
    if (!character.valid) return false;
    at += character.bytes;
  }
  return true;
}

std::string ReplaceBroken(std::string_view text) {
  std::string whole;
  whole.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    if (character.valid) {
      whole.append(text.substr(at, character.bytes));
    } else {
      whole.append("\xEF\xBF\xBD");
    }
    at += character.bytes;
  }
  return whole;
}

bool IsWhiteSpace(uint32_t code) {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool IsNumeric(uint32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

size_t FirstNumeric(std::string_view text, size_t at) {
  while (at < text.size()) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte >= '0' && byte <= '9') return at;
    const Character character = byte < 0x80 ? Character{byte, 1, true} : CharacterAt(text, at);
    if (byte >= 0x80 && IsNumeric(character.code)) return at;
    at += character.bytes;
  }
  return at;
}

bool IsWord(uint32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) return true;
  if (category == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D) return true;
  // Circled and squared letters: Other_Alphabetic.
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

std::string LowerCase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    at += character.bytes;
    if (character.code == 0x130) {
      lower.append("i\xCC\x87");  // the one character whose lower case is two
    } else {
      AppendUtf8(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code)), lower);
    }
  }
  return lower;
}

std::string UpperCase(std::string_view text) {
  std::string upper;
  upper.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    at += character.bytes;
    if (character.code == 0xdf) {
      upper.append("SS");  // the most common character whose upper case is two
    } else {
      AppendUtf8(utf8proc_toupper(static_cast<utf8proc_int32_t>(character.code)), upper);
    }
  }
  return upper;
}

std::string Compose(std::string_view text, bool compatible) {
  std::string composed;
  composed.reserve(text.size());
  // An ASCII character stays as it is, and leaves the text before it unchanged, unless a non-ASCII character follows.
  for (size_t at = 0; at < text.size();) {
    const size_t ascii = AsciiRun(text, at);
    const size_t plain = ascii - (ascii > at && ascii < text.size() ? 1 : 0);
    size_t end = ascii;
    while (end < text.size() && static_cast<uint8_t>(text[end]) >= 0x80) ++end;
    composed.append(text.substr(at, plain - at));
    composed.append(ComposeAll(text.substr(plain, end - plain), compatible));
    at = end;
  }
  return composed;
}

}  // namespace zerofleet::text
