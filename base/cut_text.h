// Shortens text for a message without breaking a character: a protobuf string that is not UTF-8 cannot be parsed.
#ifndef ZEROFLEET_BASE_CUT_TEXT_H_
#define ZEROFLEET_BASE_CUT_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace zerofleet {

// The longest beginning of `text` that has at most `most_bytes` bytes and, if `text` is UTF-8, only whole characters.
inline std::string CutText(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  constexpr size_t kMostBytesBehindLead = 3;
  const auto begins_character = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80; };
  size_t end = most_bytes;
  while (end > 0 && most_bytes - end < kMostBytesBehindLead && !begins_character(end)) --end;
  return std::string(text.substr(0, begins_character(end) ? end : most_bytes));
}

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_CUT_TEXT_H_
