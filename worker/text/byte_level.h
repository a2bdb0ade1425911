// The alphabet of byte-level vocabularies: a printable character for each byte, as GPT-2 chose them.
#ifndef ZEROFLEET_WORKER_TEXT_BYTE_LEVEL_H_
#define ZEROFLEET_WORKER_TEXT_BYTE_LEVEL_H_

#include <string>
#include <string_view>

namespace zerofleet::text {

// The characters that stand for `bytes`, in UTF-8.
std::string ToByteLevel(std::string_view bytes);
// Appends the bytes for which `characters` stand; false, with nothing appended, if one stands for no byte.
bool FromByteLevel(std::string_view characters, std::string& bytes);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_BYTE_LEVEL_H_
