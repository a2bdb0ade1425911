// UTF-8, byte by byte: whether it is valid text, and which part of it can be shown.
#ifndef ZEROFLEET_CLI_CONFIG_UTF8_H_
#define ZEROFLEET_CLI_CONFIG_UTF8_H_

#include <string>
#include <string_view>

namespace zerofleet::cli {

inline constexpr int kUtf8Invalid = 0, kUtf8Incomplete = -1;

// The length in bytes, 1 to 4, of the first character of `text`, which is not empty; kUtf8Invalid if it is none,
// kUtf8Incomplete if `text` ends within it (Unicode 15, table 3-7).
int Utf8Length(std::string_view text);

// Whether `text` is well-formed UTF-8 without control characters (C0, DEL and C1): what a message of the schema can
// carry and a terminal can show.
bool IsPlainText(std::string_view text);

// Turns bytes that arrive piece by piece into UTF-8 text: a character is passed on once its last byte has arrived, and
// invalid bytes become U+FFFD.
class Utf8Stream {
 public:
  std::string Add(std::string_view bytes);
  std::string Finish();  // the incomplete character that was held back

 private:
  std::string held_;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_UTF8_H_
