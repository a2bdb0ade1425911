// UTF-8 and the classes of characters that tokenizers ask for.
#ifndef ZEROFLEET_WORKER_TEXT_UNICODE_H_
#define ZEROFLEET_WORKER_TEXT_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zerofleet::text {

// The character at `at`, which must lie inside `text`, and the bytes it takes; {U+FFFD, bytes to leave out} where it is
// not UTF-8.
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
// U+FFFD in the place of each longest prefix of a character that does not end, as Python's errors="replace".
std::string ReplaceBroken(std::string_view text);

bool IsWhiteSpace(uint32_t code);  // Unicode's White_Space
bool IsNumeric(uint32_t code);     // general categories Nd, Nl and No
// Where the first numeric character from `at` on is; the end of `text` if there is none.
size_t FirstNumeric(std::string_view text, size_t at);
bool IsWord(uint32_t code);  // \w of Rust's regex crate
std::string LowerCase(std::string_view text);
std::string UpperCase(std::string_view text);
// Normalization Form C, or KC if `compatible`.
std::string Compose(std::string_view text, bool compatible);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_UNICODE_H_
