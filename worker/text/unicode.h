// UTF-8, and the classes of characters that tokenizers use.
#ifndef ZEROFLEET_WORKER_TEXT_UNICODE_H_
#define ZEROFLEET_WORKER_TEXT_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zerofleet::text {

// The character at `at`, which must lie inside `text`, and its length in bytes; {U+FFFD, bytes to skip} if the text is
// not UTF-8 there.
struct Character {
  uint32_t code;
  size_t bytes;
  bool valid;
};
Character CharacterAt(std::string_view text, size_t at);

void AppendUtf8(uint32_t code, std::string& text);

// The end of the ASCII characters from `at` on.
size_t AsciiRun(std::string_view text, size_t at);

bool IsUtf8(std::string_view text);
// Replaces each longest prefix of an incomplete character by U+FFFD, like Python's errors="replace".
std::string ReplaceBroken(std::string_view text);

bool IsWhiteSpace(uint32_t code);  // Unicode's White_Space
bool IsNumeric(uint32_t code);     // general categories Nd, Nl and No
// The offset of the first numeric character from `at` on; the end of `text` if there is none.
size_t FirstNumeric(std::string_view text, size_t at);
bool IsWord(uint32_t code);  // \w of Rust's regex crate
std::string LowerCase(std::string_view text);
std::string UpperCase(std::string_view text);
// Normalization Form C, or KC if `compatible`.
std::string Compose(std::string_view text, bool compatible);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_UNICODE_H_
